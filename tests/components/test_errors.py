import errno
import os

import pytest

from penstock.components.errors import counted, graph_cause, one_line


def test_counted():
    told = [counted(number, "core") for number in (0, 1, 1.0, 4 / 3, 2.0, 12345)]
    assert told == ["no cores", "1 core", "1 core", "1.33 cores", "2 cores", "12,345 cores"]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "; free space or inodes there (df -h, df -i), or name another disk"),
        (errno.EMFILE, "; raise the limit on open files (ulimit -n)"),
        (errno.EACCES, ""),
    ],
)
def test_one_line_of_a_system_error_names_path_reason_and_remedy(number, remedy):
    reason = os.strerror(number)
    assert one_line(OSError(number, reason, "/data/a")) == f"/data/a: {reason}{remedy}"
    assert one_line(OSError(number, reason)) == f"{reason}{remedy}"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("Graph execution error:\n\nkey: x is missing\n\t [[{{node p}}]] [Op:f]", "key: x"),
        ("2 root error(s) found.\n  (0) bad x\n\t [[p]]\n  (1) bad x\n\t [[q]]\n"
         "0 successful operations.\n0 derived errors ignored.", "(1) bad x"),
        ("", ""),
    ],
)  # fmt: skip
def test_cause_in_a_graph_is_no_name_and_no_count(message, cause):
    assert graph_cause(message).startswith(cause)
