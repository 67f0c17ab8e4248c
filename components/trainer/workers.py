"""Reads TF_CONFIG and connects the workers of a training under a strategy.

    {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 1}}

The workers of Penstock's JobSet get a TF_CONFIG like this. The chief is the task of type `chief`
or, without one, the first worker: only the chief exports, logs and keeps checkpoints.
"""

import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.trainer.interrupt import WorkerLostError, end_scripts_with_exit_codes

_TYPES = ("chief", "worker")
_LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)


@dataclass(frozen=True)
class Workers:
    """All workers, and the index of this worker; the chief is the first."""

    strategy: tf.distribute.Strategy
    addresses: tuple[str, ...]
    index: int
    _moved: threading.Event = field(default_factory=threading.Event, compare=False)

    @property
    def is_chief(self) -> bool:
        return self.index == 0

    @property
    def input_context(self) -> tf.distribute.InputContext:
        replicas = self.strategy.num_replicas_in_sync
        return tf.distribute.InputContext(len(self.addresses), self.index, replicas)

    def total(self, values: Sequence[int]) -> list[int]:
        """Returns the sum of each value over all workers; every worker must call this."""
        parts = tf.constant(values, tf.int64)
        sums = self.strategy.reduce(tf.distribute.ReduceOp.SUM, parts, axis=None).numpy().tolist()
        self._moved.set()
        return sums

    def from_chief(self, values: Sequence[int]) -> list[int]:
        """Returns the chief's values; every worker must call this."""
        return self.total(values if self.is_chief else [0] * len(values))

    def leave_together(self) -> None:
        """Waits until every worker has the sums of earlier calls; every worker must call this.

        If a worker ended while another still receives a sum from it, the receiver would report it
        as lost. A worker that takes part in this last sum has the earlier sums, so a failure of the
        last sum is ignored.
        """
        with suppress(*_LOST):
            self.total([0])

    @contextmanager
    def losses_named(self) -> Iterator[None]:
        """Turns TensorFlow's report of a lost worker into one line that names the worker."""
        try:
            yield
        except _LOST as error:
            found = {int(task) for task in re.findall(r"/task:(\d+)", error.message)} - {self.index}
            names = [f"{i} ({self.addresses[i]})" for i in sorted(found) if i < len(self.addresses)]
            raise WorkerLostError(
                f"worker {self.index} of {len(self.addresses)} stops, as worker "
                f"{' or '.join(names) or 'another'} is gone; start all again, they continue from "
                "the last checkpoint"
            ) from error

    @contextmanager
    def watched(self, timeout_seconds: float) -> Iterator[None]:
        """Ends the process, with one line and an exit code, if no sum arrives within the timeout.

        A hanging worker still answers TensorFlow's heartbeats, so without this timeout the others
        would wait for ever. TensorFlow's timeout of collectives is not used, because it starts a
        thread for each collective.
        """
        is_over = False

        def watch() -> None:
            while self._moved.wait(timeout_seconds):
                self._moved.clear()  # cleared before `is_over` is read, so no end is missed
                if is_over:
                    return
            print(
                f"penstock: worker {self.index} of {len(self.addresses)} stops: no step ended in "
                f"{timeout_seconds:g} s, as another hangs; start all again, they continue from the "
                "last checkpoint",
                file=sys.stderr,
                flush=True,
            )
            os._exit(WorkerLostError.exit_code)  # no exception can interrupt a call into TensorFlow

        self._moved.set()
        thread = threading.Thread(target=watch, name="penstock-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over = True
            self._moved.set()
            thread.join()


_joined: Workers | None = None


def join_workers(*, timeout_seconds: float = 600) -> Workers | None:
    """Waits for the other workers that TF_CONFIG names, and joins them.

    Call this first in a script, before any other TensorFlow call.

    Args:
        timeout_seconds: Seconds to wait for all workers.

    Returns:
        The workers, the same object in every call; None if TF_CONFIG is not set or names only this
        process.

    Raises:
        UsageError: TF_CONFIG is wrong, or TensorFlow is already in use.
        WorkerLostError: A worker did not join in time, or left while the workers connected.
    """
    global _joined
    end_scripts_with_exit_codes()
    if _joined is None and (found := _tasks(os.environ.get("TF_CONFIG") or "{}")):
        _meet(*found, timeout_seconds)
        _joined = Workers(_strategy(found[0]), *found)
    return _joined


def _tasks(text: str) -> tuple[tuple[str, ...], int] | None:
    """Returns the workers' addresses and this worker's index; None if there is only one task."""
    try:
        config = json.loads(text)
        cluster = {kind: tasks for kind, tasks in config.get("cluster", {}).items() if tasks}
        addresses = tuple(str(task) for kind in _TYPES for task in cluster.get(kind, ()))
        if sum(map(len, cluster.values())) < 2:
            return None
        task = config["task"]
        index = int(task["index"]) + (len(cluster.get("chief", ())) * (task["type"] == "worker"))
        if not set(cluster) <= set(_TYPES) or task["type"] not in cluster or index < 0:
            raise ValueError
        addresses[index].rsplit(":", 1)[1]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            "TF_CONFIG must be JSON with a cluster of host:port by type (chief, worker) and this "
            f"one's task, got {text}"
        ) from error
    return addresses, index


def _meet(addresses: Sequence[str], index: int, timeout_seconds: float) -> None:
    """Waits until all other workers accept connections, and accepts theirs meanwhile.

    Without this, TensorFlow would wait for an hour, ignore signals, and not name the missing
    workers.
    """
    missing = dict(enumerate(addresses))
    port = int(missing.pop(index).rsplit(":", 1)[1])
    end = time.monotonic() + timeout_seconds
    try:
        door = socket.create_server(("", port))
    except OSError as error:
        raise UsageError(
            f"port {port} of worker {index} is taken on this machine ({error.strerror})"
        ) from error
    with door:
        door.setblocking(False)
        while missing:
            missing = {i: address for i, address in missing.items() if not _answers(address)}
            with suppress(BlockingIOError):
                while True:
                    door.accept()[0].close()
            if missing and time.monotonic() > end:
                names = ", ".join(f"{i} ({address})" for i, address in missing.items())
                raise WorkerLostError(
                    f"worker {index} of {len(addresses)} waited {timeout_seconds:.0f} s in vain "
                    f"for worker {names}; see why it does not run, and start all again"
                )
            time.sleep(0.2 if missing else 0)


def _answers(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2):
            return True
    except OSError:
        return False


def _strategy(addresses: Sequence[str]) -> tf.distribute.Strategy:
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        raise UsageError(
            "TF_CONFIG names several workers, but TensorFlow was used before they connected: "
            "call penstock.training.join_workers() first, before any other TensorFlow call"
        ) from error
    except tf.errors.OpError as error:
        raise WorkerLostError(
            f"one of the workers {', '.join(addresses)} left while they connected; restart all "
            f"({error.message.splitlines()[0]})"
        ) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            # TensorFlow installs a SIGTERM handler that does nothing; this line restores the
            # earlier handler.
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
