"""`penstock`, sent a signal where it is about to rename something, or where a node is.

The environment variable INTERRUPT is JSON: `watch`, which places are meant; `log`, a file that gets
a line for each; `place`, the number (from 1) or the line of the one at which to send a signal;
`signal`, its name; `after`, seconds by which it is sent later; `script`, the script to run instead
of `penstock`; `exchange`, whether the file system can exchange two folders in one step.
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


def send(after):
    """Send the signal, in so many seconds."""
    number = getattr(signal, SPEC["signal"])
    if not after:
        os.kill(os.getpid(), number)
        return
    timer = threading.Timer(after, lambda: os.kill(os.getpid(), number))
    timer.daemon = True
    timer.start()


def watch(owner, name, say):
    """Pass a place before each call of a function; `say` gives its line of the arguments."""
    stock = getattr(owner, name)

    def watched(*args, **more):
        global passed
        line = say(*args)
        if ".digests.json" in line:  # a cache, kept only of files that are some seconds old
            return stock(*args, **more)
        passed += 1
        with open(SPEC["log"], "a") as log:
            log.write(f"{line}\n")
        if SPEC.get("place") in (passed, line):
            send(SPEC["after"])
        return stock(*args, **more)

    setattr(owner, name, watched)


def watch_renames():
    import tensorflow as tf

    from penstock.components.files import commit

    def line(source, target, *_):
        return f"{source} -> {target}"

    watch(os, "replace", line)
    if sys.version_info < (3, 12):  # later ones call os.rename
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

    def line(moment):
        return lambda launcher, *_: f"{launcher._pipeline_node.node_info.id} {moment}"

    watch(Launcher, "launch", line("begins"))
    watch(Launcher, "_run_executor", line("works"))
    watch(Launcher, "_publish_successful_execution", line("is done"))


if __name__ == "__main__":
    {"renames": watch_renames, "nodes": watch_nodes}[SPEC["watch"]]()
    if SPEC["script"]:
        runpy.run_path(SPEC["script"], run_name="__main__")
    else:
        from penstock.pipelines.cli.main import main

        main()
