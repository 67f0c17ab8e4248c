"""The command itself: errors as one line, and the files that the user's modules leave open."""

import subprocess
import sys

import pytest

from tests import open_files


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ('EOFError("Compressed file ended")', "\npenstock: Compressed file ended\n"),
        (
            'MemoryError("malloc of 64 bytes")',
            "penstock: out of memory (malloc of 64 bytes); use fewer workers or more shards, or "
            "add memory\n",
        ),
    ],
)
def test_unexpected_end_of_data_or_of_memory_is_one_line(penstock, error, line):
    done = penstock.run_code(
        f"""
        import sys
        from penstock.components.doctor import verify
        from penstock.pipelines.cli.main import main

        def end_early(*_, **__):
            raise {error}

        verify.verify = end_early
        sys.argv = ["penstock", "verify", "shards"]
        main()
        """
    )
    assert (done.returncode, done.stderr) == (1, line)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("--version", 0),
        # A pipeline's module is imported after `gc.freeze`, which leaves the libraries out of the
        # garbage collection at exit.
        pytest.param("run own:create", 1, marks=pytest.mark.slow),
    ],
)
def test_files_that_a_module_never_closes_are_as_plain_python_leaves_them(
    tmp_path, arguments, code
):
    open_files.write_module(tmp_path)
    expected = open_files.left_by_plain_python(tmp_path)
    log = "__import__('leaves_open').log()"
    own = "from leaves_open import *\n\ndef create():\n    log()\n    1 / 0"
    (tmp_path / "own.py").write_text(own)
    script = (
        f"import sys; sys.path.append({str(tmp_path)!r}); {log if code == 0 else ''}; "
        "from penstock.pipelines.cli.main import main; "
        f"sys.argv = ['', *{arguments!r}.split()]; main()"
    )
    done = subprocess.run([sys.executable, "-c", script.replace("; ;", ";")], cwd=tmp_path)
    assert done.returncode == code
    assert open_files.left_in(tmp_path) == expected


def test_failure_line_is_the_termination_message_of_a_pod(penstock, tmp_path):
    log = tmp_path / "termination-log"
    log.touch()
    done = penstock.run_code(
        f"""
        import sys
        from pathlib import Path
        from penstock.pipelines.cli import main

        main._TERMINATION_LOG = Path({str(log)!r})
        sys.argv = ["penstock", "verify", "no/such"]
        main.main()
        """
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"penstock: {log.read_text()}"
    assert "no/such" in log.read_text()
