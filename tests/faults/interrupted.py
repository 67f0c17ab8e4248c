"""Runs `penstock` and sends it a signal just before it renames a file, or inside a node.

The environment variable INTERRUPT is a JSON object. `watch` says which calls are places for a
signal: `renames` or `nodes` (with the beginnings of epochs). `log` is a file to which the process
adds a line at each place that it reaches. `place` is the place at which to send a signal: its
number (from 1) or its line in `log`. `signal` is the name of the signal. `after` is the number of
seconds by which the signal is delayed; if the call at that place ends earlier, the signal is sent
at its end. `script` is the script to run instead of `penstock`. `exchange` says whether the file
system can exchange two folders in one step.
"""

import json
import os
import runpy
import signal
import sys
import threading
from pathlib import Path

SPEC = json.loads(os.environ["INTERRUPT"])
passed = 0


class Signal:
    """Sends the signal once, however often it is asked to."""

    def __init__(self):
        self._to_send = threading.Lock()

    def send(self):
        if self._to_send.acquire(blocking=False):
            os.kill(os.getpid(), getattr(signal, SPEC["signal"]))

    def send_after(self, seconds):
        timer = threading.Timer(seconds, self.send)
        timer.daemon = True
        timer.start()


def watch(owner, name, say):
    """Makes each call of a function a place; `say` makes the place's line from the arguments."""
    stock = getattr(owner, name)

    def watched(*args, **more):
        global passed
        line = say(*args)
        if ".digests.json" in line:  # whether this cache is written depends on the time
            return stock(*args, **more)
        passed += 1
        with open(SPEC["log"], "a") as log:
            log.write(f"{line}\n")
        if SPEC.get("place") not in (passed, line):
            return stock(*args, **more)
        sent = Signal()
        if not SPEC["after"]:
            sent.send()
        else:
            sent.send_after(SPEC["after"])
        try:
            return stock(*args, **more)
        finally:
            sent.send()

    setattr(owner, name, watched)


def watch_renames():
    import tensorflow as tf

    from penstock.components.files import commit

    def line(source, target, *_):
        return f"{source} -> {target}"

    watch(os, "replace", line)
    if sys.version_info < (3, 11):  # from 3.11 on, these call os.rename and os.replace
        watch(Path, "rename", line)
        watch(Path, "replace", line)
    watch(os, "rename", line)
    watch(tf.io.gfile, "rename", line)
    if SPEC["exchange"]:
        watch(commit, "exchange", line)
    else:
        commit.exchange = lambda first, second: False


def watch_nodes():
    from tfx.orchestration.portable.launcher import Launcher

    from penstock.components.trainer.backup import Backup

    watch(Launcher, "_run_executor", lambda node, *_: node._pipeline_node.node_info.id)
    watch(Backup, "on_epoch_begin", lambda backup, number, *_: f"epoch {number + 1}")


if __name__ == "__main__":
    {"renames": watch_renames, "nodes": watch_nodes}[SPEC["watch"]]()
    if SPEC["script"]:
        runpy.run_path(SPEC["script"], run_name="__main__")
    else:
        from penstock.pipelines.cli.main import main

        main()
