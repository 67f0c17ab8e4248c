"""The `run_fn` of tables: trains on transformed rows, exports a SavedModel for raw rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tensorflow_transform as tft
from tfx.components.trainer.fn_args_utils import FnArgs

from penstock.components.tfrecord.feature_spec import feature_spec
from penstock.components.trainer.export import export_model, transform_graph
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.served_columns import SERVE_COLUMNS
from penstock.components.trainer.serving import Served, serve_columns
from penstock.components.trainer.workers import join_workers
from penstock.pipelines.blocks.facts import BuildModel, ModelFacts
from penstock.pipelines.blocks.label_facts import LabelFacts, label_facts
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.blocks.training import train_and_compare
from penstock.pipelines.blocks.training_options import TrainingOptions, read_options

# Rows of a batch that is evaluated: one of 40 rows costs 14 us of CPU a row, one of 1,024 two.
_EVAL_ROWS = 1024


@dataclass(frozen=True)
class TableData:
    """Training and evaluation rows of the Trainer; packed records if the pipeline has a Pack node.

    Attributes:
        fn_args: Arguments from TFX, with the `training_options` in `custom_config`.
        targets: Targets of the model.
    """

    fn_args: FnArgs
    targets: tuple[Target, ...]

    @cached_property
    def transform(self) -> tft.TFTransformOutput:
        """Output of Transform."""
        return tft.TFTransformOutput(self.fn_args.transform_graph_path)

    @cached_property
    def options(self) -> TrainingOptions:
        """Options of the training."""
        return read_options(self.fn_args.custom_config)

    @cached_property
    def train_input(self) -> Input:
        """The training rows."""
        return self._input(self.fn_args.train_files, self.options.input)

    @cached_property
    def fitting_input(self) -> Input:
        """The training rows in the batches of `eval_input`, for figures of them."""
        return self._input(self.fn_args.train_files, self._for_eval)

    @cached_property
    def eval_input(self) -> Input:
        """The evaluation rows, in batches of at least 1,024."""
        return self._input(self.fn_args.eval_files, self._for_eval)

    @property
    def facts(self) -> ModelFacts:
        """Returns the facts that the model is built from."""
        shapes = {name: tuple(getattr(self._spec[name], "shape", ())) for name in self.features}
        return ModelFacts(self.targets, shapes, self.options.input.seed, self._labels)

    def _labels(self) -> dict[str, LabelFacts]:
        # All rows count: in the order of the files, a class may have its first row at the end.
        return {target.label: label_facts(self._label(target), target) for target in self.targets}

    def _label(self, target: Target) -> Iterator[Any]:
        name, files, options = target.label, self.fn_args.train_files, self._for_eval
        if self.options.pack:
            rows = Input.packed(files, options=options, columns=[name])
        else:
            rows = Input.rows(files, {name: self._spec[name]}, options=options)
        return (row[name] for row in rows.eval())

    @cached_property
    def _spec(self) -> dict[str, Any]:
        return feature_spec(self.transform.transformed_metadata.schema)

    @property
    def features(self) -> list[str]:
        """The transformed features, without the labels."""
        return [name for name in self._spec if name not in {t.label for t in self.targets}]

    @property
    def _has_several(self) -> bool:
        return len(self.targets) > 1

    @property
    def _for_eval(self) -> InputOptions:
        reading = self.options.input
        return replace(reading, batch_size=max(reading.batch_size, _EVAL_ROWS))

    def _input(self, files: Sequence[str], options: InputOptions) -> Input:
        names = [target.label for target in self.targets]
        label = names if self._has_several else names[0]
        if self.options.pack:
            return Input.packed(files, label=label, options=options)
        return Input.rows(files, self._spec, label=label, options=options)


def train_tables(fn_args: FnArgs, targets: Sequence[Target], build_model: BuildModel) -> None:
    """Trains a model, compares it with the best constant, and exports it.

    Besides the signatures of `export_model`, the SavedModel has `serve_columns` for named columns.

    Args:
        fn_args: Arguments from TFX, with the `training_options` in `custom_config`.
        targets: Targets of the model.
        build_model: Function that returns a compiled model, one output per target, from the
            `ModelFacts` and the config's `model`; see `table_model`.

    Raises:
        DataError: The model is no better than a constant, or an error of `train` or `export_model`.
        UsageError: An error of `train` or `export_model`.
    """
    join_workers()
    data = TableData(fn_args, tuple(targets))
    trained = train_and_compare(
        fn_args,
        targets,
        data.options,
        lambda: build_model(data.facts, data.options.model),
        data.train_input,
        data.eval_input,
        data.fitting_input,
    )
    if trained is None:
        return
    raw = data.transform.raw_feature_spec()
    graph = transform_graph(data.transform)
    used = graph.needed_for(data.features) - {target.name for target in targets}
    columns = serve_columns(
        trained.model,
        graph,
        {name: raw[name] for name in raw if name in used},
        {
            target.label: Served(target.name if len(targets) > 1 else "", target.classes)
            for target in targets
        },
    )
    export_model(
        trained.model,
        fn_args.serving_model_dir,
        label=[target.name for target in targets],
        transform=data.transform,
        signatures={SERVE_COLUMNS: columns},
    )
    trained.discard_checkpoints()
