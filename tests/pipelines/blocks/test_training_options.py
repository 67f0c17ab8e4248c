"""Options of a config keep their values and types in a Trainer's `custom_config`."""

import json
from dataclasses import dataclass, replace

import pytest
from keras_tuner import HyperParameters

from penstock.components.errors import UsageError
from penstock.pipelines.blocks.config import TableConfig, TuneOptions
from penstock.pipelines.blocks.training_options import read_options, training_options
from penstock.pipelines.digits import config as digits
from penstock.pipelines.taxi import config as taxi

TUNED = replace(taxi.Config(), tune=TuneOptions(trials=2))
RUN_FN = "penstock.pipelines.taxi.model.run_fn"


@dataclass(frozen=True)
class OwnConfig(TableConfig):
    @dataclass(frozen=True)
    class Model:
        layers: tuple[int, ...] = (3, 4)

    model: Model = Model()


@pytest.mark.parametrize("config", [taxi.Config(), digits.Config(), OwnConfig()])
def test_options_reach_run_fn_with_their_types(config):
    custom_config = json.loads(json.dumps(training_options(config, RUN_FN, packed=True)))
    found = read_options(custom_config)
    assert (found.train, found.input, found.model) == (config.train, config.input, config.model)
    assert type(found.model) is type(config.model)
    assert (found.must_beat, found.start_from, found.pack) == ("constant", None, True)


def test_what_the_tuner_drew_replaces_options():
    custom_config = json.loads(json.dumps(training_options(TUNED, RUN_FN)))
    drawn = HyperParameters()
    drawn.values = {"units": 32, "learning_rate": 0.02}
    found = read_options(custom_config, drawn.get_config())
    assert found.model == replace(TUNED.model, hidden_units=(32, 16), learning_rate=0.02)
    assert (found.train, found.input) == (TUNED.train, TUNED.input)


def search_space(hp):
    """A search space that returns the given values; the test below gives values that are wrong."""
    return hp.values


def test_wrong_searches_are_refused():
    with pytest.raises(
        UsageError, match=r"^tune\.trials: json has no function search_space\(hp\); "
    ):
        training_options(TUNED, "json.run_fn")
    custom_config = training_options(TUNED, f"{__name__}.run_fn")
    drawn = HyperParameters()
    for drawn.values, expected in (
        ({"model": {"rate": 1}}, "^model.rate: no such option; "),
        ({"models": {}}, "^search_space: no group 'models'; did you mean 'model'?"),
    ):
        with pytest.raises(UsageError, match=expected):
            read_options(custom_config, drawn.get_config())
