"""Options of a config in, the same options with their types out of a Trainer's `custom_config`."""

import json
from dataclasses import dataclass

import pytest

from penstock.pipelines.blocks.config import TableConfig
from penstock.pipelines.blocks.training_options import read_options, training_options
from penstock.pipelines.digits import config as digits
from penstock.pipelines.taxi import config as taxi

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
