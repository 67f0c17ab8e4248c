"""The `run_fn` of tables: trains on transformed rows, exports a SavedModel for raw rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from penstock.pipelines.blocks.facts import BuildModel, LabelFacts, ModelFacts, label_facts
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.blocks.training import train_and_compare
from penstock.pipelines.blocks.training_options import TrainingOptions, read_options

# Minimum number of rows in a batch for evaluation: a row costs 14 us of CPU in batches of 40, and 2
# us in batches of 1,024.
_EVAL_ROWS = 1024


@dataclass(frozen=True)
class TableData:
    """Transformed rows of a table, or packed records if the pipeline has a Pack node.

    Attributes:
        spec: Feature spec of the rows, with the labels.
        targets: Targets of the model.
        options: Options of the training.
    """

    spec: Mapping[str, Any]
    targets: tuple[Target, ...]
    options: TrainingOptions

    @property
    def features(self) -> list[str]:
        """The transformed features, without the labels."""
        return [name for name in self.spec if name not in self._labels]

    def train_input(self, files: Sequence[str]) -> Input:
        """Returns the input for training, with the batch size of the options."""
        return self._input(files, self.options.input)

    def eval_input(self, files: Sequence[str]) -> Input:
        """Returns the input for evaluation and comparison, in batches of at least 1,024 rows."""
        return self._input(files, self._for_eval)

    def facts(self, train_files: Sequence[str]) -> ModelFacts:
        """Returns the facts from which the model is built."""
        shapes = {name: tuple(getattr(self.spec[name], "shape", ())) for name in self.features}

        def read_labels() -> dict[str, LabelFacts]:
            # All rows are read, because in the order of the files, the first row of a class may be
            # near the end.
            return {t.label: label_facts(self._label(train_files, t), t) for t in self.targets}

        return ModelFacts(self.targets, shapes, self.options.input.seed, read_labels)

    @property
    def _labels(self) -> list[str]:
        return [target.label for target in self.targets]

    @property
    def _for_eval(self) -> InputOptions:
        reading = self.options.input
        return replace(reading, batch_size=max(reading.batch_size, _EVAL_ROWS))

    def _label(self, files: Sequence[str], target: Target) -> Iterator[Any]:
        name = target.label
        if self.options.pack:
            rows = Input.packed(files, options=self._for_eval, columns=[name])
        else:
            rows = Input.rows(files, {name: self.spec[name]}, options=self._for_eval)
        return (row[name] for row in rows.eval())

    def _input(self, files: Sequence[str], options: InputOptions) -> Input:
        label = self._labels if len(self.targets) > 1 else self._labels[0]
        if self.options.pack:
            return Input.packed(files, label=label, options=options)
        return Input.rows(files, self.spec, label=label, options=options)


def train_tables(fn_args: FnArgs, targets: Sequence[Target], build_model: BuildModel) -> None:
    """Trains a model, compares it with simpler models, and exports it.

    In addition to the signatures of `export_model`, the SavedModel has `serve_columns` for named
    columns.

    Args:
        fn_args: Arguments from TFX, with the `training_options` in `custom_config`.
        targets: Targets of the model.
        build_model: Function such as `table_model`. It gets the `ModelFacts` and the config's
            `model`, and returns a compiled model with one output per target.

    Raises:
        DataError: The model does not beat the config's `must_beat`, or `train` or `export_model`
            raised it.
        UsageError: The config's `callbacks` or `evaluation.decide` cannot be used, or `train` or
            `export_model` raised it.
    """
    join_workers()
    options = read_options(fn_args.custom_config, fn_args.hyperparameters)
    transform = tft.TFTransformOutput(fn_args.transform_graph_path)
    spec = feature_spec(transform.transformed_metadata.schema)
    data = TableData(spec, tuple(targets), options)
    result = train_and_compare(
        fn_args,
        targets,
        options,
        lambda: build_model(data.facts(fn_args.train_files), options.model),
        data.train_input(fn_args.train_files),
        data.eval_input(fn_args.eval_files),
        data.eval_input(fn_args.train_files),
    )
    if result is None:
        return
    trained, compared = result
    thresholds = {one.label: one.threshold for one in compared}
    raw = transform.raw_feature_spec()
    graph = transform_graph(transform)
    used = graph.needed_for(data.features) - {target.name for target in targets}
    columns = serve_columns(
        trained.model,
        graph,
        {name: raw[name] for name in raw if name in used},
        {
            target.label: Served(
                target.name if len(targets) > 1 else "", target.classes, thresholds[target.label]
            )
            for target in targets
        },
    )
    export_model(
        trained.model,
        fn_args.serving_model_dir,
        label=[target.name for target in targets],
        transform=transform,
        signatures={SERVE_COLUMNS: columns},
    )
    trained.discard_checkpoints()
