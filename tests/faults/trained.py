"""Trains on the rows in a folder, its argument, and stores the weights there (`weights.npz`)."""

import sys
from functools import partial
from pathlib import Path

import numpy as np

from penstock.components.trainer.loop import train
from penstock.components.trainer.options import TrainOptions
from tests.components.trainer.conftest import Inputs, counting_model

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    data = partial(Inputs(folder), "rows", seed=3)
    trained = train(
        counting_model,
        data,
        data().take(3),
        options=TrainOptions(max_steps=103, steps_per_epoch=52),
        model_run_dir=str(folder / "run"),
        resume_dir=str(folder / "resume"),
    )
    np.savez(folder / "weights.npz", *trained.model.get_weights())
