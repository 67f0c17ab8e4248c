"""The contents of the image compared with pyproject.toml and the lock; nothing is built."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "k8s/Dockerfile").read_text()
# The environment of the image debian:trixie-slim.
ENVIRONMENT = {
    **default_environment(),
    "python_version": "3.13",
    "python_full_version": "3.13.5",
    "sys_platform": "linux",
    "platform_machine": "x86_64",
}
GLIBC = 41
PLATFORMS = [
    *(f"manylinux_2_{minor}_x86_64" for minor in range(GLIBC, 4, -1)),
    *("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"),
]
# Wheel tags that the image's interpreter accepts.
TAGS = {
    *cpython_tags((3, 13), platforms=PLATFORMS),
    *compatible_tags((3, 13), "cp313", PLATFORMS),
}


def argument(name):
    (value,) = re.findall(rf'^ARG {name}="(.*)"$', DOCKERFILE, re.MULTILINE)
    return value.split()


def requirements(*extras):
    """Versions of the packages in the image, by name."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:/opt/uv/bin")
    done = subprocess.run(
        [
            *(uv, "export", "--frozen", "--no-cache", "--no-dev", "--no-emit-project"),
            *("--no-hashes", "--no-header", "--no-annotate"),
            *(option for extra in extras for option in ("--extra", extra)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = [Requirement(line) for line in done.stdout.splitlines()]
    return {
        one.name: str(one.specifier).removeprefix("==")
        for one in found
        if one.marker is None or one.marker.evaluate(ENVIRONMENT)
    }


@pytest.fixture(scope="module")
def wheels():
    """File names of the lock's wheels, by name and version."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    return {
        (package["name"], package.get("version")): [
            wheel["url"].rpartition("/")[2] for wheel in package.get("wheels", [])
        ]
        for package in lock["package"]
    }


def without_wheel(versions, wheels):
    return {
        name
        for name, version in versions.items()
        if not any(parse_wheel_filename(file)[3] & TAGS for file in wheels[name, version])
    }


def test_the_image_is_built_of_tfx_1_21_and_wheels(wheels):
    versions = requirements(*argument("EXTRAS"), *argument("MORE_EXTRAS"))

    assert versions["tfx"] == "1.21.0"
    assert not [name for name in versions if name.endswith("-cu12")]
    pure_python = {"kfp-server-api", "promise", "rouge-score"}
    assert without_wheel(versions, wheels) == {"pyfarmhash", *pure_python}


def test_gpu_image_adds_only_cuda_wheels(wheels):
    versions = requirements(*argument("EXTRAS"))
    with_gpu = requirements(*argument("EXTRAS"), "gpu")

    added = with_gpu.keys() - versions.keys()
    assert {"nvidia-cudnn-cu12", "nvidia-cuda-runtime-cu12", "nvidia-nccl-cu12"} <= added
    assert {name for name in added if not re.fullmatch(r"nvidia-[a-z-]+-cu12", name)} == set()
    assert without_wheel({name: with_gpu[name] for name in added}, wheels) == set()
    assert {name: with_gpu[name] for name in versions} == versions


def test_no_dev_dependency_is_in_the_image():
    assert requirements(*argument("EXTRAS")).keys() & {"pytest", "ruff", "mypy", "moto"} == set()


def test_every_folder_of_packages_reaches_the_image():
    rooms = {path.name for path in (ROOT / "penstock").iterdir() if path.is_symlink()}
    rooms.add("penstock")
    let_through = (ROOT / ".dockerignore").read_text().splitlines()
    assert rooms - {line.removeprefix("!") for line in let_through} == set()


def test_final_image_runs_as_a_user_without_compiler():
    *_, environment, final = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    assert environment.startswith("${BASE} AS environment\n")
    assert final.startswith("environment\n")
    assert re.findall(r"^USER (.*)$", environment + final, re.MULTILINE) == ["65532:65532"]
    (packages,) = re.findall(r"install --yes --no-install-recommends (.*) \\", environment)
    assert packages.split() == ["ca-certificates", "python3"]
