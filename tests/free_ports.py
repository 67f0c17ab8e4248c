"""Ports for servers that a test starts."""

import random
import socket
from contextlib import suppress
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_kept = []


def free_port():
    """A free port, for a server that cannot be asked which port it bound.

    The port is below the ephemeral ports, which the system gives to outgoing connections. It
    belongs to this process until the process ends: an abstract socket named after the port keeps
    other test processes from choosing the same port.
    """
    end = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32768
    choice = random.SystemRandom()
    while True:
        port = choice.randrange(end // 2, end)
        with suppress(OSError), socket.create_server(("", port)):
            mark = socket.socket(socket.AF_UNIX)
            mark.bind(f"\0penstock-test-port-{port}")
            _kept.append(mark)
            return port
