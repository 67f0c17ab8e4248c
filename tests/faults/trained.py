"""A training in FOLDER, which has the rows; leaves its weights in `weights.npz`."""

import sys
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path

import numpy as np

from penstock.components.trainer.loop import train
from penstock.components.trainer.options import TrainOptions

if __name__ == "__main__":
    path = Path(__file__).parents[1] / "components/trainer/conftest.py"
    parts = SourceFileLoader("trainer_conftest", str(path)).load_module()
    folder = Path(sys.argv[1])
    data = partial(parts.Inputs(folder), "rows", seed=3)
    trained = train(
        parts.counting_model,
        data,
        data().take(3),
        options=TrainOptions(max_steps=103, steps_per_epoch=52),
        model_run_dir=str(folder / "run"),
        resume_dir=str(folder / "resume"),
    )
    np.savez(folder / "weights.npz", *trained.model.get_weights())
