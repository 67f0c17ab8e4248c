from pathlib import Path

import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow.compiled_file import check_image, check_output
from tests.pipelines.cli.conftest import call


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (f"foo@sha256:{'0' * 63}", "64 hexadecimal digits in lower case, got 63 characters"),
        (f"foo@sha256:{'A' * 64}", "64 hexadecimal digits in lower case, got 64 characters"),
        ("foo:1", "may change between two runs; give it by digest"),
        ("a b", "not the name of an image: 'a b'"),
    ],
)
def test_image_without_a_digest_or_an_allowed_tag_is_refused(image, message):
    with pytest.raises(UsageError, match=message):
        check_image(image, allow_mutable_tag=False)
    check_image(f"registry.example/foo:1@sha256:{'0' * 64}", allow_mutable_tag=False)
    check_image("foo:1", allow_mutable_tag=True)


def test_file_without_yaml_suffix_is_refused():
    with pytest.raises(UsageError, match=r"^m\.txt: Kubeflow reads files that end in \.yaml$"):
        check_output("a:1", Path("m.txt"), allow_mutable_tag=True, overwrite=False)


def test_component_file_is_replaced_only_with_overwrite(tmp_path):
    out = tmp_path / "new/ü b/pack.yaml"
    arguments = ["compile", "pack", "--image", "foo@sha256:" + "0" * 64, "--out", out]
    last = f"next: kfp.components.load_component_from_file({str(out)!r})\n"
    assert call(*arguments).stdout == f"{out}: {last}"
    refused = call(*arguments).exception
    assert str(refused) == f"{out} exists already; name another output or pass --overwrite"
    assert call(*arguments, "--overwrite").stdout == f"{out}: {last}"
