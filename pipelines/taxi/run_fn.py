"""The Trainer's `run_fn`: transformed trips in, a SavedModel that takes raw ones out."""

from tfx.components.trainer.fn_args_utils import FnArgs

from penstock.pipelines.taxi import features
from penstock.pipelines.taxi.model import build_model
from penstock.recipes import TableData, train_tables


def run_fn(fn_args: FnArgs) -> None:
    """Train, require the model to be better than a constant, and export."""
    data = TableData(fn_args, (features.TARGET,))
    train_tables(data, lambda: build_model(data))
