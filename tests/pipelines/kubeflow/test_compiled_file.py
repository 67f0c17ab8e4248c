from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.components.errors import UsageError
from penstock.pipelines.cli.main import app
from penstock.pipelines.kubeflow.compiled_file import check_image, check_output


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (f"foo@sha256:{'0' * 63}", "64 hexadecimal digits in lower case, got 63 characters"),
        (f"foo@sha256:{'A' * 64}", "64 hexadecimal digits in lower case, got 64 characters"),
        ("foo:1", "may change between two runs; give it by digest"),
        ("foo", "may change between two runs; give it by digest"),
        ("a b", "not the name of an image: 'a b'"),
    ],
)
def test_image_without_a_digest_is_refused(image, message):
    with pytest.raises(UsageError) as caught:
        check_image(image, allow_mutable_tag=False)
    assert message in str(caught.value)


def test_image_by_digest_or_allowed_tag_is_accepted():
    check_image(f"registry.example/foo:1@sha256:{'0' * 64}", allow_mutable_tag=False)
    check_image("foo:1", allow_mutable_tag=True)


def test_file_without_yaml_suffix_is_refused():
    with pytest.raises(UsageError, match=r"^m\.txt: Kubeflow reads files that end in \.yaml$"):
        check_output("a:1", Path("m.txt"), allow_mutable_tag=True, overwrite=False)


def test_component_file_is_replaced_only_with_overwrite(tmp_path):
    out = tmp_path / "new/ü b/pack.yaml"
    arguments = ["compile", "pack", "--image", "foo@sha256:" + "0" * 64, "--out", str(out)]
    last = f"next: kfp.components.load_component_from_file({str(out)!r})\n"
    assert CliRunner().invoke(app, arguments).stdout == f"{out}: {last}"
    refused = CliRunner().invoke(app, arguments).exception
    assert str(refused) == f"{out} exists already; name another output or pass --overwrite"
    assert CliRunner().invoke(app, [*arguments, "--overwrite"]).stdout == f"{out}: {last}"
