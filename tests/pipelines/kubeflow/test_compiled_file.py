from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.components.errors import UsageError
from penstock.pipelines.cli.main import app
from penstock.pipelines.kubeflow.compiled_file import check_image, check_yaml


@pytest.mark.parametrize("digest", ["12", "0" * 63, "0" * 65, "", "A" * 64])
@pytest.mark.parametrize("allow", [True, False])
def test_image_digest_of_wrong_length_is_refused(digest, allow):
    with pytest.raises(UsageError) as caught:
        check_image(f"foo@sha256:{digest}", allow)
    assert str(caught.value) == (
        f"image 'foo@sha256:{digest}': a sha256 digest is 64 hexadecimal digits in lower case, "
        f"got {len(digest)} characters; registry and build print the whole one"
    )


def test_image_by_digest_or_allowed_tag_is_accepted():
    check_image("registry.example/foo:1@sha256:" + "0" * 64, allow_mutable_tag=False)
    check_image("foo:1", allow_mutable_tag=True)


def test_file_without_yaml_suffix_is_refused():
    with pytest.raises(UsageError, match=r"^m\.txt: Kubeflow reads files that end in \.yaml$"):
        check_yaml(Path("m.txt"))


def test_component_file_is_replaced_only_with_overwrite(tmp_path):
    out = tmp_path / "new/ü b/pack.yaml"
    arguments = ["compile", "pack", "--image", "foo@sha256:" + "0" * 64, "--out", str(out)]
    last = f"next: kfp.components.load_component_from_file({str(out)!r})\n"
    assert CliRunner().invoke(app, arguments).stdout == f"{out}: {last}"
    refused = CliRunner().invoke(app, arguments).exception
    assert str(refused) == f"{out} exists already; name another output or pass --overwrite"
    assert CliRunner().invoke(app, [*arguments, "--overwrite"]).stdout == f"{out}: {last}"
