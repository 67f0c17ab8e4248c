"""Options shared by pipelines; a pipeline's config extends `TableConfig` or `ImageConfig`.

@dataclass(frozen=True)
class Config(TableConfig):
    root: str = "runs/churn"
    data: str = "customers.csv"
"""

import os
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Literal

from penstock.components.engine.options import EngineOptions
from penstock.components.errors import UsageError
from penstock.components.example_gen.options import IngestOptions
from penstock.components.gates.options import (
    GateOptions,
    ImageRules,
    KServeOptions,
    RegisterOptions,
    RetrainOptions,
    ServingOptions,
)
from penstock.components.limits import check_choices, check_numbers
from penstock.components.packing.options import PackOptions
from penstock.components.sources.images.options import Images
from penstock.components.sources.options import Table
from penstock.components.trainer.images.augmentation_options import AugmentOptions
from penstock.components.trainer.input.options import ImageInputOptions, InputOptions
from penstock.components.trainer.options import MODES, TrainOptions
from penstock.pipelines.reporting.model_card import ModelCard


@dataclass(frozen=True)
class TableModelOptions:
    """Options of the wide and deep model for tables.

    Attributes:
        embedding_size: Dimensions of a category's embedding in the deep part.
        hidden_units: Sizes of the deep part's layers.
        dropout: Dropout rate of each hidden layer; 0 to below 1.
        learning_rate: Learning rate of Adam.
        class_weights: Whether all classes count equally in the loss, even rare ones; predicted
            probabilities then differ from the shares in the data.
    """

    embedding_size: int = 8
    hidden_units: tuple[int, ...] = (64, 32)
    dropout: float = 0.0
    learning_rate: float = 0.003
    class_weights: bool = False

    def __post_init__(self) -> None:
        _check_dropout(self.dropout)


@dataclass(frozen=True)
class ImageModelOptions:
    """Options of a small convolutional network, or of one of `keras.applications` with a new top.

    Attributes:
        application: Network of `keras.applications`, such as `MobileNetV2`; None uses the small
            network.
        weights: File of the application's weights without its top; None starts from random weights.
        train_base: Whether training changes the weights of the application, not only of the top.
        filters: Number of filters in each stage of the small network; each stage halves the image.
        hidden_units: Size of the last hidden layer of both networks; 0 leaves it out.
        dropout: Dropout rate of the features and of the last hidden layer; 0 to below 1.
        learning_rate: Learning rate of Adam.
        class_weights: Whether all classes count equally in the loss, as in `TableModelOptions`.
        augment: Random changes of the images in training.
    """

    application: str | None = None
    weights: str | None = None
    train_base: bool = False
    filters: tuple[int, ...] = (32, 64)
    hidden_units: int = 128
    dropout: float = 0.3
    learning_rate: float = 0.001
    class_weights: bool = False
    augment: AugmentOptions = field(default_factory=AugmentOptions)

    def __post_init__(self) -> None:
        if self.application is None and (self.weights is not None or self.train_base):
            raise UsageError("weights and train_base are an application's; name it")
        if self.application is not None and self.weights is None and not self.train_base:
            raise UsageError(
                f"{self.application} without weights would stay random: give weights, or "
                "train_base=true"
            )
        if not self.filters or min(self.filters) < 1:
            raise UsageError(f"filters must be at least one number above 0, got {self.filters}")
        _check_dropout(self.dropout)


def _check_dropout(dropout: float) -> None:
    if not 0 <= dropout < 1:
        raise UsageError(f"dropout must be within 0..1 and below 1, got {dropout}")


@dataclass(frozen=True)
class DecideOptions:
    """Rule for the lowest probability at which a model predicts the second of two classes.

    Without a rule, this probability is 0.5. With a rule, it is chosen on the evaluation rows and
    stored with the model.

    Attributes:
        recall: Share of the second class's rows that must be found, with the fewest false alarms.
        miss_cost: Cost of a missed row of the second class; a false alarm costs 1.
    """

    recall: float | None = None
    miss_cost: float | None = None

    def __post_init__(self) -> None:
        if self.recall is not None and self.miss_cost is not None:
            raise UsageError("set recall or miss_cost, not both")
        if self.recall is not None and not 0 < self.recall <= 1:
            raise UsageError(f"recall must be above 0, at most 1: {self.recall}")
        if self.miss_cost is not None and not self.miss_cost > 0:
            raise UsageError(f"miss_cost must be above 0, got {self.miss_cost}")

    @property
    def is_set(self) -> bool:
        return self != DecideOptions()


@dataclass(frozen=True)
class EvaluationOptions:
    """Conditions for pushing a model; metrics have the names in `blocks.evaluation.METRICS`.

    Attributes:
        thresholds: Threshold of each metric over all rows: a minimum, or a maximum if lower is
            better.
        max_worsening: Largest worsening of each metric compared with the last blessed model.
        slice_thresholds: Threshold of each metric in every slice.
        slices: Raw features whose values define slices.
        decide: Recall or cost that determines the lowest probability at which a model predicts the
            second of two classes.
    """

    thresholds: dict[str, float] = field(default_factory=dict)
    max_worsening: dict[str, float] = field(default_factory=dict)
    slice_thresholds: dict[str, float] = field(default_factory=dict)
    slices: tuple[str, ...] = ()
    decide: DecideOptions = field(default_factory=DecideOptions)


@dataclass(frozen=True)
class TuneOptions:
    """Search for better options before the training, among those that `search_space(hp)` returns.

    `search_space` is a function in the module of the pipeline's `run_fn`.

    Attributes:
        trials: Number of trainings with randomly chosen options; 0 trains only with the given
            options.
        objective: Metric that ranks the trials, by its value in the epoch that would be exported.
        mode: `min` if lower is better, `max` if higher is.
    """

    trials: int = 0
    objective: str = "val_loss"
    mode: str = "min"

    def __post_init__(self) -> None:
        check_choices(self, mode=MODES)
        check_numbers(self, trials=0)


@dataclass(frozen=True)
class LineageOptions:
    """Receiver of the OpenLineage events of a run on this machine; the default sends no events.

    Attributes:
        url: Address of an OpenLineage server; the environment variable OPENLINEAGE_API_KEY has
            the server's key.
        file: File to which events are appended, one JSON object per line.
    """

    url: str = ""
    file: str = ""

    def __post_init__(self) -> None:
        if self.url and self.file:
            raise UsageError("set url or file, not both")
        if self.variables and find_spec("openlineage") is None:
            raise UsageError(
                "OpenLineage events need a package: pip install 'penstock-tfx[lineage]'"
            )

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that configure OpenLineage's client."""
        if self.url:
            return {"OPENLINEAGE_URL": self.url}
        if not self.file:
            return {}
        parts = {"TYPE": "file", "LOG_FILE_PATH": in_full(self.file), "APPEND": "true"}
        return {f"OPENLINEAGE__TRANSPORT__{name}": value for name, value in parts.items()}


@dataclass(frozen=True)
class PipelineConfig:
    """Options of every training pipeline.

    Attributes:
        root: Folder of the runs: metadata, artifacts and pushed models.
        pipeline_root: Folder or gs:// address of the artifacts; None uses a folder below `root`.
        schema: Path of a curated schema.pbtxt; None infers one from the data.
        ingest: Shards, compression and rejected rows.
        gate: Limits for the data. The pipeline adds its targets to the gate's `labels`, and raises
            the limit of quarantined rows to at least that of `ingest`.
        retrain: Limits of drift, new rows and age; a run trains only if one of them is reached or
            no model has been blessed yet. By default every run trains. The pipeline adds its
            targets to the `labels` of these options.
        engine: Beam runner of all nodes.
        train: Length, early stop and checkpoints of the training.
        tune: Trials before the training, which then uses the best options; by default there are
            none.
        callbacks: Dotted path of a function without arguments that returns additional Keras
            callbacks, such as one of an experiment tracker; None uses only TensorBoard's.
        last_spans: Number of newest spans to train on; spans before the newest come from earlier
            runs.
        start_from: Initial weights; None starts from random weights. `blessed` takes the weights of
            the latest blessed model that was trained on other data, except those with another shape
            in the new model. A path names a SavedModel of `export_model` or a `.keras` file, whose
            weights must have the shapes of the new model's weights.
        serving: Requests that a model must answer before it is pushed.
        kserve: KServe service that gets a pushed model as its next revision.
        register: MLflow's registered model to which a pushed model is added as a version.
        must_beat: Baseline that the trained model must beat on the evaluation rows: the best
            constant, a linear model or boosted trees. If the trained model does not beat it, the
            run stops. None reports the comparison and never stops the run.
        lineage: Receiver of the OpenLineage events.
        model_card: Statements about the model that only its authors can make, for the report.
        parameters: Dotted names of options that a run on Kubeflow may change; by default the data,
            the training's steps, batch size and learning rate, and the evaluation's thresholds.
    """

    root: str = "runs"
    pipeline_root: str | None = None
    schema: str | None = None
    ingest: IngestOptions = field(default_factory=IngestOptions)
    gate: GateOptions = field(default_factory=GateOptions)
    retrain: RetrainOptions = field(default_factory=RetrainOptions)
    engine: EngineOptions = field(default_factory=EngineOptions)
    train: TrainOptions = field(default_factory=lambda: TrainOptions(max_steps=1000))
    tune: TuneOptions = field(default_factory=TuneOptions)
    callbacks: str | None = None
    last_spans: int = 1
    start_from: str | None = None
    serving: ServingOptions = field(default_factory=ServingOptions)
    kserve: KServeOptions = field(default_factory=KServeOptions)
    register: RegisterOptions = field(default_factory=RegisterOptions)
    must_beat: Literal["constant", "linear", "trees"] | None = "constant"
    lineage: LineageOptions = field(default_factory=LineageOptions)
    model_card: ModelCard = field(default_factory=ModelCard)
    parameters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_numbers(self, last_spans=1)

    @property
    def folder(self) -> str:
        """`root` as an absolute path; an address stays as it is."""
        return in_full(self.root)


def in_full(place: str) -> str:
    return place if "://" in place else os.path.abspath(place)


@dataclass(frozen=True)
class TableConfig(PipelineConfig):
    """Options of a pipeline for tables, in addition to those of `PipelineConfig`.

    Attributes:
        data: File of the table, a glob or a folder. If the name has `{SPAN}`, or `{YYYY}`, `{MM}`
            and `{DD}`, each run reads the newest span and its newest `{VERSION}`.
        span: Number of the span to read; for dates, days since 1970-01-01; -1 reads the newest.
        source: Options of the file format; their `schema_file` must be None, because `schema`
            replaces it.
        group: Column of texts or whole numbers; rows with equal values are in the same split. None
            splits each row separately.
        time: Column of times that splits the rows: rows from `ingest.split_at` on are evaluated.
        pack: Whether training reads packed records instead of transformed Examples.
        packing: Options of packing.
        input: Options of the training input.
    """

    data: str = ""
    span: int = -1
    source: Table = field(default_factory=Table)
    group: str | None = None
    time: str | None = None
    pack: bool = False
    packing: PackOptions = field(default_factory=PackOptions)
    input: InputOptions = field(default_factory=lambda: InputOptions(batch_size=256, seed=1))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, span=-1)
        if self.source.schema_file is not None:
            raise UsageError("source.schema_file: set schema, which all nodes go by")
        if self.group and self.time:
            raise UsageError("group and time: rows are divided by one of them")
        if (self.time is None) != (self.ingest.split_at is None):
            raise UsageError("time and ingest.split_at: set both, such as a column and a date")


@dataclass(frozen=True)
class ImageConfig(PipelineConfig):
    """Options of a pipeline for images, in addition to those of `PipelineConfig`.

    Attributes:
        data: Folder of the images.
        source: Options of labels and storage.
        checks: Limits for the images.
        input: Options for reading and decoding, with the size of the images.
        model: Options of the network.
    """

    data: str = ""
    source: Images = field(default_factory=Images)
    checks: ImageRules = field(default_factory=ImageRules)
    input: ImageInputOptions = field(
        default_factory=lambda: ImageInputOptions(batch_size=32, height=64, width=64, seed=1)
    )
    model: ImageModelOptions = field(default_factory=ImageModelOptions)
