import pytest

from penstock.pipelines.blocks.target import Target


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("tips", "tips_xf"),
        ("image/class/label", "image/class/label_xf"),
        ("churned?", "churned__xf"),
        ("_id", "column__id_xf"),
        ("größe", "gru00f6u00dfe_xf"),
    ],
)
def test_target_label_is_the_raw_name_if_tensorflow_accepts_it(name, label):
    assert Target(name, "regression").label == label
