"""How a command ends after Ctrl-C or SIGTERM, in a separate process."""

import signal
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.slow

START = """
import atexit, os, subprocess, sys, threading, time
from penstock.pipelines.terminal import interrupts

interrupts._MAX_SECONDS = 1
interrupts.catch_interrupts()
atexit.register(print, "cleaned up", flush=True)
def work():
    print("working", flush=True)
    time.sleep(1000)
"""
END = """
except BaseException as error:
    print(interrupts.was_interrupted(error), flush=True)
    interrupts.end_interrupted()
"""


def interrupt(work, number=signal.SIGINT):
    """The exit code and lines of a command that is interrupted once it prints `working`."""
    script = f"{START}try:\n{textwrap.indent(work, ' ' * 4)}{END}"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines = [process.stdout.readline()]
    process.send_signal(number)
    rest, _ = process.communicate(timeout=300)
    return process.returncode, [line.strip() for line in [*lines, *rest.splitlines()]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_line_and_130(number):
    said = ["working", "True", "cleaned up"]
    assert interrupt("work()", number) == (130, said)


def test_the_command_ends_where_it_was_dropped():
    # If a C++ callback or a finalizer raises an error, Python prints the error and continues.
    work = "class Drop:\n    def __del__(self):\n        work()\nDrop()\nwork()"
    assert interrupt(work) == (130, ["working", "working", "penstock: interrupted"])


def test_what_a_library_makes_of_it_is_the_interrupt_all_the_same():
    work = "try:\n    work()\nexcept BaseException:\n    raise ValueError('odd')"
    assert interrupt(work)[1][1] == "True"


def test_threads_and_children_do_not_hold_the_end():
    work = (
        "threading.Thread(target=time.sleep, args=(1000,)).start()\n"
        "child = subprocess.Popen(['sleep', '1000'])\n"
        "try:\n    work()\nfinally:\n    child.wait()"
    )
    assert interrupt(work)[0] == 130
