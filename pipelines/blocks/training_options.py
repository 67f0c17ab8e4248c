"""Typed options of a `run_fn`, passed from a config through the Trainer's `custom_config`."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pkgutil import resolve_name
from typing import Any

from penstock.components.errors import UsageError, nearest
from penstock.components.plain import from_plain, override
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.model_setup import weights_digest
from penstock.components.trainer.options import TrainOptions
from penstock.pipelines.blocks.config import DecideOptions, PipelineConfig
from penstock.pipelines.config.code_digest import code_digest

BLESSED = "blessed"

_GROUPS = ("train", "input", "model")
_DECIDE = "decide"
_TYPES = "types"


@dataclass(frozen=True)
class TrainingOptions:
    """Options of a training, as in the config; `build_model` receives `model`."""

    train: TrainOptions
    input: Any  # InputOptions or ImageInputOptions
    model: Any
    callbacks: str | None  # dotted path of a function that returns Keras callbacks
    must_beat: str | None
    start_from: str | None
    pack: bool
    decide: DecideOptions = field(default_factory=DecideOptions)


def training_options(
    config: PipelineConfig, run_fn: str, *, packed: bool = False
) -> dict[str, Any]:
    """Returns the Trainer's `custom_config`, from which `read_options` restores the options.

    Args:
        config: Options of the pipeline.
        run_fn: Dotted path of the function that the Trainer runs; the digest of its code makes the
            Trainer run again when the code has changed.
        packed: Whether the Trainer reads packed records.
    """
    groups = {name: getattr(config, name) for name in _GROUPS if hasattr(config, name)}
    base = None if config.start_from == BLESSED else config.start_from
    tune = {}
    if config.tune.trials:
        search_space(run_fn)
        tune = {"tune": asdict(config.tune), "run_fn": run_fn}
    decide = getattr(getattr(config, "evaluation", None), _DECIDE, DecideOptions())
    return {
        **{name: asdict(options) for name, options in groups.items()},
        _TYPES: {
            name: f"{type(of).__module__}:{type(of).__qualname__}" for name, of in groups.items()
        },
        "callbacks": config.callbacks,
        "must_beat": config.must_beat,
        "start_from": base,
        # The digest changes with the weights. So new weights at the same path start a new training,
        # which neither resumes nor comes from the cache.
        "start_from_weights": weights_digest(base) if base else "",
        "pack": packed,
        **({_DECIDE: asdict(decide)} if decide.is_set else {}),
        "code": code_digest(run_fn) + (code_digest(config.callbacks) if config.callbacks else ""),
        **tune,
    }


def search_space(run_fn: str) -> Callable[[Any], Mapping[str, Any]]:
    """Returns the function `search_space` of a `run_fn`'s module, or raises UsageError."""
    module = run_fn.rpartition(".")[0]
    found: Any = getattr(importlib.import_module(module), "search_space", None)
    if found is None:
        raise UsageError(
            f"tune.trials: {module} has no function search_space(hp); write it as in "
            "docs/training.md, or leave the option out"
        )
    return found


def read_options(
    custom_config: Mapping[str, Any], hyperparameters: Mapping[str, Any] | None = None
) -> TrainingOptions:
    """Restores the options from the `custom_config` that `training_options` returned.

    The options that `search_space` returns for the Tuner's `hyperparameters` replace those of the
    config.
    """
    types = custom_config[_TYPES]
    groups = {name: from_plain(resolve_name(types[name]), custom_config[name]) for name in types}
    if hyperparameters and "run_fn" in custom_config:
        from keras_tuner import HyperParameters

        drawn = HyperParameters.from_config(hyperparameters)
        for group, values in search_space(custom_config["run_fn"])(drawn).items():
            if group not in groups:
                raise UsageError(f"search_space: no group {group!r}; {nearest(group, groups)}")
            groups[group] = override(groups[group], values, where=group)
    return TrainingOptions(
        train=groups["train"],
        input=groups.get("input", InputOptions(batch_size=256)),
        model=groups.get("model"),
        callbacks=custom_config["callbacks"],
        must_beat=custom_config["must_beat"],
        start_from=custom_config["start_from"],
        pack=custom_config["pack"],
        decide=from_plain(DecideOptions, custom_config.get(_DECIDE, {})),
    )
