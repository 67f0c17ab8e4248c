import subprocess
import sys

CODE = """
import logging, os, sys, pathlib
from penstock.pipelines.terminal.noise import noise_to_log

kept = sys.argv[1:]
with noise_to_log() as noise:
    print("python", flush=True)
    os.system("echo from-c >&2")
    if kept:
        noise.keep_in(pathlib.Path(kept[0]))
    logging.getLogger("tfx").info("informed")
    logging.getLogger("tfx").info("exec_properties={'password': 'hunter22', 'rows': 3}")
    print("for the person", file=noise.screen)
    temporary = noise.log
print("result")
assert temporary.exists() == bool(kept)
"""
AT_EXIT = "import sys\nclass C:\n  def __del__(self): os.write(2, b'late')\nc = C()\n"


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )


def test_only_what_is_meant_for_the_screen_gets_there(tmp_path):
    log = tmp_path / "logs/run.log"
    done = run(str(log))
    assert done.stdout == "result\n"
    assert done.stderr == "for the person\n"
    lines = log.read_text().splitlines()
    assert lines[:2] == ["python", "from-c"]
    assert lines[2].endswith(" INFO tfx: informed")
    assert lines[3].endswith(" INFO tfx: exec_properties={'password': '***', 'rows': 3}")


def test_without_a_place_to_keep_it_the_noise_is_gone():
    assert run().stderr == "for the person\n"


def test_log_that_is_gone_at_the_end_is_no_error(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CODE + "temporary.unlink()", str(tmp_path / "log")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Traceback" not in done.stderr
