import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.config.overrides import from_mapping, load_overrides, override


@dataclass(frozen=True)
class Train:
    steps: int = 10
    rate: float = 0.1
    patience: int | None = None

    def __post_init__(self):
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")


@dataclass(frozen=True)
class Stop:
    metric: str
    patience: int = 3


@dataclass(frozen=True)
class Config:
    name: str = "taxi"
    fast: bool = False
    mode: Literal["strict", "loose"] = "strict"
    units: tuple[int, ...] = (64, 32)
    train: Train = field(default_factory=lambda: Train(rate=0.5))
    stop: Stop | None = None


def overridden(*assignments, file=None):
    return override(Config(), load_overrides(file, assignments))


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("name=digits", Config(name="digits")),
        ("name=3", Config(name="3")),
        ("fast=true", Config(fast=True)),
        ("mode=loose", Config(mode="loose")),
        ("units=[8, 4]", Config(units=(8, 4))),
        ("units=[]", Config(units=())),
        ("train.steps=20", Config(train=Train(20, 0.5))),
        ("train.rate=1", Config(train=Train(10, 1.0))),
        ("train.rate=1e-3", Config(train=Train(10, 0.001))),
        ("train.patience=2", Config(train=Train(10, 0.5, 2))),
        ("train.patience=null", Config()),
        ("stop.metric=loss", Config(stop=Stop("loss"))),
        ("stop=null", Config()),
    ],
)
def test_values_have_the_type_of_their_field(assignment, expected):
    assert overridden(assignment) == expected


def test_assignments_come_after_the_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("name: digits\ntrain:\n  steps: 20\n  rate: 0.2\n")
    assert overridden("train.steps=30", file=file) == Config(name="digits", train=Train(30, 0.2))


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ("nam=x", "nam: no such option; did you mean 'name'?"),
        ("train.step=1", "train.step: no such option; did you mean 'steps'?"),
        ("zzz=1", "zzz: no such option; choices: name, fast, mode, units, train, stop"),
        ("train.steps=many", "train.steps: expected a whole number, got 'many'"),
        ("train.steps=1.5", "train.steps: expected a whole number, got 1.5"),
        ("train.steps=true", "train.steps: expected a whole number, got True"),
        ("train.steps=null", "train.steps: expected a whole number, got None"),
        ("train.rate=quick", "train.rate: expected a number, got 'quick'"),
        ("fast=1", "fast: expected true or false, got 1"),
        ("name=[1]", "name: expected a text, got [1]"),
        ("mode=lax", "mode: must be one of strict, loose, got 'lax'"),
        ("units=8", "units: expected a list like [1, 2], got 8"),
        ("units=[8, x]", "units[1]: expected a whole number, got 'x'"),
        ("train=3", "train: expected a group of options, got 3; set train.OPTION"),
        ("train.steps=0", "train: steps must be at least 1, got 0"),
        ("stop.patience=1", "stop: Stop.__init__() missing 1 required positional argument: "),
        ("name", "--set takes key=value, got 'name'"),
        ("train..steps=1", "--set takes key=value, got 'train..steps=1'"),
        ("name=[", "name: cannot read the value '['; quote it as in YAML"),
    ],
)
def test_errors_name_the_field_the_value_and_the_choices(assignment, text):
    with pytest.raises(UsageError) as error:
        overridden(assignment)
    assert str(error.value).startswith(text)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("- a\n", "expected a mapping of options, got list"),
        ("a: [", "not YAML"),
        ("1: a\n", "expected a mapping of options, got dict"),
    ],
)
def test_a_bad_file_is_named(tmp_path, content, text):
    file = tmp_path / "config.yaml"
    file.write_text(content)
    with pytest.raises(UsageError, match=f"{file}: {text}"):
        load_overrides(file, [])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none.yaml: no such file"):
        load_overrides(tmp_path / "none.yaml", [])


def test_from_mapping_takes_what_json_gives_back():
    values = {"name": "a", "units": [1, 2], "train": {"steps": 3}, "stop": {"metric": "loss"}}
    assert from_mapping(Config, values) == Config(
        name="a", units=(1, 2), train=Train(3), stop=Stop("loss")
    )


def test_from_mapping_names_what_is_missing():
    with pytest.raises(UsageError, match=r"missing 1 required positional argument: 'metric'"):
        from_mapping(Stop, {})


@dataclass(frozen=True)
class Typed:
    paths: list[Path] = field(default_factory=list)
    pair: tuple[int, str] = (1, "a")
    limit: int | float | None = None
    extra: dict[str, int] = field(default_factory=dict)
    anything: Any = None
    call: Callable[[], int] | None = None


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("paths=[a, b/c]", Typed(paths=[Path("a"), Path("b/c")])),
        ("pair=[2, b]", Typed(pair=(2, "b"))),
        ("limit=0.5", Typed(limit=0.5)),
        ("extra={a: 1}", Typed(extra={"a": 1})),
        ("anything=[x]", Typed(anything=["x"])),
    ],
)
def test_a_users_own_types(assignment, expected):
    assert override(Typed(), load_overrides(None, [assignment])) == expected


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ("pair=[2]", "pair: expected 2 values, got 1"),
        ("pair=[b, 2]", "pair[0]: expected a whole number, got 'b'"),
        ("limit=many", "limit: expected a number, got 'many'"),
        ("call=f", "cannot be set from a text or a YAML file"),
    ],
)
def test_what_does_not_fit_a_users_own_types(assignment, text):
    with pytest.raises(UsageError, match=re.escape(text)):
        override(Typed(), load_overrides(None, [assignment]))


def test_one_entry_of_a_mapping_leaves_the_others():
    @dataclass(frozen=True)
    class Bounds:
        least: dict[str, float] = field(default_factory=lambda: {"auc": 0.5, "accuracy": 0.6})

    changes = load_overrides(None, ["least.auc=1", "least.recall=0.1"])
    assert override(Bounds(), changes).least == {"auc": 1.0, "accuracy": 0.6, "recall": 0.1}
    assert override(Bounds(), {"least": {"auc": None}}).least == {"accuracy": 0.6}
    with pytest.raises(UsageError, match=r"least\.auc: expected a number, got 'high'"):
        override(Bounds(), {"least": {"auc": "high"}})
