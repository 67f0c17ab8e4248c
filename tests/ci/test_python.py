"""`.ci/python` on simulated machines, whose system, glibc and interpreters are scripts."""

import subprocess
from pathlib import Path

import pytest

CHOOSE = Path(__file__).parents[2] / ".ci/python"


@pytest.fixture
def machine(tmp_path):
    """Simulates a machine with interpreters of some versions, and runs `.ci/python env` on it."""

    def make(*versions, glibc="2.41", system="Linux x86_64", inside=None, pyenv=None):
        programs = {f"bin/python{version}": f"echo {version}" for version in versions}
        programs["bin/uname"] = (
            f'[ "$1" = -s ] && echo {system.split()[0]} || echo {system.split()[1]}'
        )
        programs["bin/getconf"] = f"echo glibc {glibc}" if glibc else "exit 1"
        if inside:
            programs["env/bin/python"] = f"echo {inside}"
        if pyenv:
            programs["bin/python" + pyenv] = "exit 127"  # shim of a version that is not active
            programs[f".pyenv/versions/{pyenv}.7/bin/python"] = f"echo {pyenv}"
        for name, line in programs.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"#!/bin/sh\n{line}\n")
            file.chmod(0o755)
        return subprocess.run(
            ["/bin/sh", CHOOSE, "env"],
            cwd=tmp_path,
            env={"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )

    return make


@pytest.mark.parametrize(
    ("versions", "options", "path", "why"),
    [
        (["3.10", "3.11", "3.12"], {}, "bin/python3.12", "TFX 1.21: the newest here that runs"),
        (["3.10", "3.12"], {"glibc": "2.36"}, "bin/python3.10", "TFX 1.21 needs glibc 2.39, and"),
        (["3.10"], {"glibc": "2.39"}, "bin/python3.10", "TFX 1.16: TFX 1.21 needs Python 3.11-3."),
        (
            ["3.11"],
            {"glibc": "2.36", "pyenv": "3.10"},
            ".pyenv/versions/3.10.7/bin/python",
            "TFX 1.21 needs glibc 2.39, and this is glibc 2.36",
        ),
        (["3.10", "3.13"], {"system": "Darwin arm64"}, "bin/python3.13", "that runs on macOS"),
    ],
)
def test_the_newest_set_that_the_machine_can_run(machine, tmp_path, versions, options, path, why):
    done = machine(*versions, **options)
    found = str(tmp_path / path)
    assert (done.returncode, done.stdout) == (0, f"{found}\n")
    [line] = done.stderr.splitlines()
    assert line.startswith("set-up: Python 3.")
    assert f" ({found}) with " in line
    assert why in line


def test_an_environment_that_fits_is_kept(machine):
    done = machine("3.13", inside="3.10")
    assert done.stdout == "env/bin/python\n"
    assert "with TFX 1.16: it is in env already" in done.stderr
    assert machine("3.10", inside="3.12", glibc="2.36").stdout.endswith("/bin/python3.10\n")


@pytest.mark.parametrize(
    ("versions", "options", "words"),
    [
        (["3.11"], {"glibc": "2.36"}, "no Python 3.10 with its venv module and headers, for TFX"),
        (["3.9", "3.14"], {}, "no Python 3.11-3.13 with its venv module and headers (Debian: apt-"),
        ([], {"glibc": None}, "TFX needs a Linux with glibc"),
        (["3.13"], {"system": "Linux aarch64"}, "macOS arm64; this is Linux aarch64"),
    ],
)
def test_what_is_missing_is_one_line(machine, versions, options, words):
    done = machine(*versions, **options)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert words in line
