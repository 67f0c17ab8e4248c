import json
import sysconfig
from pathlib import Path

import pytest

from penstock.components.errors import DataError
from penstock.pipelines.kubeflow.package_paths import find_packages, mark_packages
from penstock.schemas import schema_file

SITE = sysconfig.get_path("purelib")


def test_files_of_packages_are_named_by_package():
    assert mark_packages(schema_file("taxi")) == (
        "python-package://penstock.schemas/taxi/schema.pbtxt"
    )
    assert mark_packages(f"{SITE}/tfx/examples") == "python-package://tfx/examples"
    assert mark_packages(f"{SITE}/tfx") == "python-package://tfx"


def test_packages_are_marked_within_json_and_arguments():
    text = json.dumps({"setup": f"--file={SITE}/tfx/a.csv,{SITE}/yaml/b"})
    marked = json.dumps({"setup": "--file=python-package://tfx/a.csv,python-package://yaml/b"})

    assert mark_packages(text) == marked
    assert find_packages(marked) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/data/tfx",
        f"{SITE}/no_such_package/file",
        f"{SITE}/tfx-1.16.0.dist-info/METADATA",
        f"{SITE}-old/tfx/file",
        f"/copy{SITE}/tfx/file",
        f"{SITE}",
        "gs://bucket/tfx",
    ],
)
def test_other_texts_stay(text):
    assert mark_packages(text) == text
    assert find_packages(text) == text


def test_marked_path_is_found_again():
    there = find_packages(mark_packages(schema_file("taxi")))

    assert there == schema_file("taxi")
    assert Path(there).exists()


@pytest.mark.parametrize("package", ["no_such_package", "penstock.nothing", "tfx.version"])
def test_missing_package_is_refused_by_name(package):
    with pytest.raises(DataError, match=rf"package '{package}', which is not installed here; b"):
        find_packages(f"python-package://{package}/data")
