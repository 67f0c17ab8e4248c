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
def test_the_label_is_the_raw_name_where_tensorflow_takes_it(name, label):
    assert Target(name, "regression").label == label
