"""The bill of materials that the image carries."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "k8s/sbom.py"


def _sbom(*prefixes, **environment):
    done = subprocess.run(
        [sys.executable, SCRIPT, *prefixes], capture_output=True, check=True, env=environment
    )
    return json.loads(done.stdout)


def _install(prefix, name, version, licence):
    folder = prefix / f"lib/python3.13/site-packages/{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{licence}\n"
    )


def test_sbom_lists_packages_of_all_prefixes_with_purl_and_licence(tmp_path):
    _install(tmp_path / "a", "Some_Package", "1.2", "License-Expression: MIT")
    _install(tmp_path / "b", "other", "3", "License: my own words")

    found = _sbom(str(tmp_path / "a"), str(tmp_path / "b"))

    other, some = found["packages"]
    assert (some["name"], some["versionInfo"], some["licenseDeclared"]) == (
        "Some_Package",
        "1.2",
        "MIT",
    )
    assert some["externalRefs"][0]["referenceLocator"] == "pkg:pypi/some-package@1.2"
    assert other["licenseDeclared"] == "NOASSERTION"
    described = [relation["relatedSpdxElement"] for relation in found["relationships"]]
    assert described == [other["SPDXID"], some["SPDXID"]]


def test_sbom_of_equal_packages_is_equal_and_of_others_is_not(tmp_path):
    _install(tmp_path, "one", "1", "")
    before = _sbom(str(tmp_path))
    assert _sbom(str(tmp_path)) == before
    assert before["creationInfo"]["created"] == "1970-01-01T00:00:00Z"
    dated = _sbom(str(tmp_path), SOURCE_DATE_EPOCH="86400")
    assert dated["creationInfo"]["created"] == "1970-01-02T00:00:00Z"

    _install(tmp_path, "two", "1", "")
    assert _sbom(str(tmp_path))["documentNamespace"] != before["documentNamespace"]
