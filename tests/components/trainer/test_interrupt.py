import subprocess
import sys

import pytest

import penstock

SCRIPT = """
import sys
from penstock.components.trainer.interrupt import end_scripts_with_exit_codes
from penstock.training import TrainingInterruptedError, WorkerLostError
end_scripts_with_exit_codes()
raise eval(sys.argv[1])
"""


@pytest.mark.parametrize(
    ("error", "code", "last"),
    [
        ("WorkerLostError('worker 1 is gone')", 138, "penstock: worker 1 is gone"),
        ("TrainingInterruptedError('at step 7')", 143, "penstock: at step 7"),
        ("KeyError('else')", 1, "KeyError: 'else'"),
    ],
)
def test_a_plain_script_ends_by_a_public_error_in_one_line_with_its_exit_code(error, code, last):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, error], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (code, last)
    assert ("Traceback" in done.stderr) == (code == 1)


def test_errors_of_a_training_are_public_penstock_errors():
    for name in ("WorkerLostError", "TrainingInterruptedError"):
        assert issubclass(getattr(penstock.training, name), penstock.PenstockError)
