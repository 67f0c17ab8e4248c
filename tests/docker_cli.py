"""Docker's command, for tests in containers."""

import os
import subprocess

IMAGE = os.environ.get("PENSTOCK_IMAGE", "penstock:dev")


def docker(*arguments):
    """Returns the output of `docker ARGUMENTS`."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
