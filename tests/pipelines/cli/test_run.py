"""`penstock run` where it ends before a node begins; whole runs are those of taxi and digits."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (
            ["taxy"],
            2,
            "no pipeline 'taxy'; choices: taxi, digits, or your own as package.module:function",
        ),
        (
            ["no.such:create"],
            2,
            "no module 'no.such'; run penstock from the folder that contains it",
        ),
        (["taxi", "--set", "trian.xla=true"], 2, "trian: no such option; did you mean 'train'?"),
        (["taxi", "--root", "/proc/x"], 1, "pipeline 'taxi' cannot be made: /proc/x; "),
    ],
)
def test_one_line_and_an_exit_code(tmp_path, arguments, code, line, penstock):
    done = penstock("run", *arguments, cwd=tmp_path)
    assert done.returncode == code
    assert done.stderr.splitlines()[-1].startswith(f"penstock: {line}")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
