"""The model: `table_model` with a weight per category (wide) and a small network (deep).

The Trainer runs `run_fn`, which trains on transformed trips and exports a SavedModel that takes raw
trips.
"""

from typing import Any

import keras
from tfx.components.trainer.fn_args_utils import FnArgs

from penstock.pipelines.taxi import features
from penstock.recipes import ModelFacts, TableModelOptions, table_model, train_tables


def build_model(facts: ModelFacts, options: TableModelOptions) -> keras.Model:
    """Builds and compiles the model with the sizes in `config.Config.model`.

    Inputs: `numbers_xf` float32 [batch, 6] and `categories_xf` int64 [batch, 9].
    Output: float32 [batch, 1], the probability that the passenger tips well.
    """
    return table_model(facts, options, categories=list(features.category_sizes().values()))


def search_space(hp: Any) -> dict[str, Any]:
    """Returns the options that each of the `tune.trials` trials changes.

    KerasTuner chooses the values.
    """
    units = hp.Choice("units", [32, 64, 128])
    rate = hp.Float("learning_rate", 0.001, 0.03, sampling="log")
    return {"model": {"learning_rate": rate, "hidden_units": [units, units // 2]}}


def run_fn(fn_args: FnArgs) -> None:
    """Trains a model, requires it to be better than a constant prediction, and exports it."""
    train_tables(fn_args, [features.TARGET], build_model)
