import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.config.overrides import load_overrides


def test_load_overrides_assignments_replace_values_of_the_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("name: digits\ntrain:\n  steps: 20\n  rate: 0.2\n")
    assert load_overrides(file, ["train.steps=30", "units=[8, 4]"]) == {
        "name": "digits",
        "train": {"steps": 30, "rate": 0.2},
        "units": [8, 4],
    }


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ("name", "--set takes NAME=VALUE, got 'name'"),
        ("name=[", "name: cannot read the value '['; quote it as in YAML"),
    ],
)
def test_load_overrides_bad_assignment_is_named(assignment, text):
    with pytest.raises(UsageError) as error:
        load_overrides(None, [assignment])
    assert str(error.value).startswith(text)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("- a\n", "expected a mapping of options, got list"),
        ("a: [", "not YAML"),
        ("1: a\n", "expected a mapping of options, got dict"),
        (None, "no such file"),
    ],
)
def test_load_overrides_bad_file_is_named(tmp_path, content, text):
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError, match=f"{file}: {text}"):
        load_overrides(file, [])
