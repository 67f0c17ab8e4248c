"""Ports for servers that a test starts."""

import random
import socket
from contextlib import suppress
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port():
    """A port that nothing holds, below those that the system gives to connections.

    One of the system's own may be taken by any connection before the server binds it.
    """
    end = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32768
    choice = random.SystemRandom()
    while True:
        port = choice.randrange(end // 2, end)
        with suppress(OSError), socket.create_server(("", port)):
            return port
