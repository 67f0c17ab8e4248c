import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from penstock.components.errors import UsageError
from penstock.components.plain import from_json, from_plain, from_record, override, to_json


@dataclass(frozen=True)
class Inner:
    count: int
    share: float | None = None


@dataclass(frozen=True)
class Outer:
    inner: Inner | None
    parts: Sequence[Inner]
    by_name: Mapping[str, int]
    size: tuple[int, int] | None
    rest: Any = None


WHOLE = Outer(Inner(1), (Inner(2, 0.5), Inner(3, 1)), {"a": 1}, (4, 5), {"any": [1]})


def test_from_record_reads_what_asdict_gives():
    assert from_record(Outer, asdict(WHOLE)) == WHOLE
    made = from_record(Outer, {"inner": None, "parts": [], "by_name": {}, "size": [4, 5]})
    assert made == Outer(None, (), {}, (4, 5))
    # A whole number in a float field stays an int.
    assert repr(from_record(Inner, {"count": 1, "share": 3})) == "Inner(count=1, share=3)"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"inner": {"count": True}}, "inner.count: expected a whole number, 0 or more, got True"),
        ({"inner": {"count": -1}}, "inner.count: expected a whole number, 0 or more, got -1"),
        ({"parts": [{"count": 1, "share": "1"}]}, "parts[0].share: expected a number, got '1'"),
        ({"by_name": {"a": 1.5}}, "by_name.a: expected a whole number, 0 or more, got 1.5"),
        ({"by_name": 7}, "by_name: expected an object like {name: value}, got 7"),
        ({"parts": {}}, "parts: expected a list like [1, 2], got {}"),
        ({"parts": ""}, "parts: expected a list like [1, 2], got ''"),
        ({"size": {}}, "size: expected a list like [1, 2], got {}"),
        ({"stranger": 1}, "stranger: no such option; choices: inner, parts, by_name, size, rest"),
    ],
)
def test_from_record_names_the_path_of_what_does_not_fit(changes, text):
    with pytest.raises(UsageError, match=f"^{re.escape(text)}$"):
        from_record(Outer, {**asdict(WHOLE), **changes})


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
    least: dict[str, float] = field(default_factory=lambda: {"auc": 0.5, "accuracy": 0.6})
    paths: list[Path] = field(default_factory=list)
    pair: tuple[int, str] = (1, "a")
    limit: int | float | None = None
    anything: Any = None
    call: Callable[[], int] | None = None


def changed(text):
    """Returns a config with the values of a YAML text, set as `--set` and `--config` set them."""
    return override(Config(), yaml.safe_load(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: digits", Config(name="digits")),
        ("name: 3", Config(name="3")),
        ("fast: true", Config(fast=True)),
        ("mode: loose", Config(mode="loose")),
        ("units: [8, 4]", Config(units=(8, 4))),
        ("units: []", Config(units=())),
        ("train: {steps: 20}", Config(train=Train(20, 0.5))),
        ("train: {rate: 1}", Config(train=Train(10, 1.0))),
        ("train: {rate: 1e-3}", Config(train=Train(10, 0.001))),
        ("train: {patience: 2}", Config(train=Train(10, 0.5, 2))),
        ("train: {patience: null}", Config()),
        ("stop: {metric: loss}", Config(stop=Stop("loss"))),
        ("stop: null", Config()),
        (
            "least: {auc: 1, recall: 0.1}",
            Config(least={"accuracy": 0.6, "auc": 1.0, "recall": 0.1}),
        ),
        ("least: {auc: null}", Config(least={"accuracy": 0.6})),
        ("paths: [a, b/c]", Config(paths=[Path("a"), Path("b/c")])),
        ("pair: [2, b]", Config(pair=(2, "b"))),
        ("limit: 0.5", Config(limit=0.5)),
        ("anything: [x]", Config(anything=["x"])),
    ],
)
def test_override_values_have_the_type_of_their_field(text, expected):
    assert changed(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nam: x", "nam: no such option; did you mean 'name'?"),
        ("train: {step: 1}", "train.step: no such option; did you mean 'steps'?"),
        ("zzz: 1", "zzz: no such option; choices: name, fast, mode, units, train, stop, least, p"),
        ("train: {steps: many}", "train.steps: expected a whole number, got 'many'"),
        ("train: {steps: 1.5}", "train.steps: expected a whole number, got 1.5"),
        ("train: {steps: true}", "train.steps: expected a whole number, got True"),
        ("train: {steps: null}", "train.steps: expected a whole number, got None"),
        ("train: {rate: quick}", "train.rate: expected a number, got 'quick'"),
        ("train: {rate: true}", "train.rate: expected a number, got True"),
        ("fast: 1", "fast: expected true or false, got 1"),
        ("name: [1]", "name: expected a text, got [1]"),
        ("mode: lax", "mode: must be one of strict, loose, got 'lax'"),
        ("units: 8", "units: expected a list like [1, 2], got 8"),
        ("units: [8, x]", "units[1]: expected a whole number, got 'x'"),
        ("train: 3", "train: expected a group of options, got 3; set train.OPTION"),
        ("train: {steps: 0}", "train: steps must be at least 1, got 0"),
        ("stop: {patience: 1}", "stop: Stop.__init__() missing 1 required positional argument: "),
        ("least: {auc: high}", "least.auc: expected a number, got 'high'"),
        ("pair: [2]", "pair: expected 2 values, got 1"),
        ("pair: [b, 2]", "pair[0]: expected a whole number, got 'b'"),
        ("limit: many", "limit: expected a number, got 'many'"),
        ("call: f", "call: its type, collections.abc.Callable[[], int], cannot be set from a text"),
    ],
)
def test_override_errors_name_the_path_the_value_and_the_choices(text, message):
    with pytest.raises(UsageError) as error:
        changed(text)
    assert str(error.value).startswith(message)


def test_from_json_reads_what_to_json_gives():
    config = Config(units=(1, 2), train=Train(3), stop=Stop("loss"), least={})
    assert from_json(Config, to_json(config)) == config


def test_to_json_of_equal_options_is_equal():
    config = Config(least={"b": 1.0, "a": 0.5})
    assert to_json(config) == to_json(replace(config, least={"a": 0.5, "b": 1.0}))


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not JSON"), ("[]", "expected a JSON object of options, got '\\[\\]'")],
)
def test_from_json_refuses_other_texts(text, message):
    with pytest.raises(UsageError, match=message):
        from_json(Config, text)


def test_from_plain_names_missing_fields():
    with pytest.raises(UsageError, match=r"missing 1 required positional argument: 'metric'"):
        from_plain(Stop, {})
