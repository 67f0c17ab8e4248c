"""The image pipeline's options, a record of what they lead to.

    penstock run digits

On two cores of a virtual machine, with TFX 1.16 on Python 3.10: 38 s; accuracy 0.988 on the
evaluation split, 608 of the 1,797 digits.

    penstock run digits --config cars.yaml --root runs/cars

trains on images of your own, here by transfer learning from weights that you have:

    data: cars_train
    schema: null
    source: {labels_file: cars_train_annos.mat, class_names_file: cars_meta.mat}
    input: {height: 299, width: 299, crop: random, cache: none}
    augment: {flip_horizontal: true, rotate_degrees: 0, brightness: 0.2}
    model: {application: InceptionResNetV2, weights: inception_resnet_v2_notop.h5}
"""

from dataclasses import dataclass, field

from penstock import (
    AugmentOptions,
    EarlyStop,
    ImageInputOptions,
    ImageOptions,
    ImageRules,
    IngestOptions,
    ModelCard,
    TrackOptions,
    TrainOptions,
    UsageError,
    schema_file,
)


@dataclass(frozen=True)
class ModelOptions:
    """A small convolutional network, or one of `keras.applications` with a new top.

    Attributes:
        application: Network of `keras.applications`, as `MobileNetV2` or `InceptionResNetV2`;
            None takes the small one.
        weights: File of the application's weights without its top; None begins at random.
        train_base: Whether training changes the application too, not only the top.
        filters: Of the small network: filters of each of its stages, which halve the image.
        hidden_units: Size of the layer before the last, in both; 0 leaves it out.
        dropout: Share of the features that training leaves out before it; 0 to below 1.
        learning_rate: Adam's.
    """

    application: str | None = None
    weights: str | None = None
    train_base: bool = False
    filters: tuple[int, ...] = (32, 64)
    hidden_units: int = 128
    dropout: float = 0.3
    learning_rate: float = 0.001

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
        if not 0 <= self.dropout < 1:
            raise UsageError(f"dropout must be within 0..1 and below 1, got {self.dropout}")


@dataclass(frozen=True)
class EvaluationOptions:
    """When a model may be pushed.

    Attributes:
        min_accuracy: Least accuracy on the evaluation split, 0..1.
        min_class_accuracy: Least accuracy on the images of each class there, 0..1.
        max_accuracy_drop: Most by which its accuracy may be below the baseline's.
    """

    min_accuracy: float = 0.95
    min_class_accuracy: float = 0.8
    max_accuracy_drop: float = 0.01

    def __post_init__(self) -> None:
        for name in ("min_accuracy", "min_class_accuracy", "max_accuracy_drop"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} must be within 0..1, got {getattr(self, name)}")


@dataclass(frozen=True)
class DigitsConfig:
    """The whole pipeline.

    Attributes:
        root: Folder of the runs: metadata, artifacts and pushed models.
        data: Folder of the images; None takes scikit-learn's digits, which are written to
            `data` below the root.
        schema: Path of a curated schema.pbtxt, by default that of the digits; None infers one
            from the data.
        source: How images are labelled and stored.
        ingest: Shards, compression, bad images.
        checks: What else the images must be like.
        input: How training reads and decodes them, and at what size.
        augment: How training varies them.
        model: The network.
        train: How long to train.
        track: The tracker that is told of the training, beside TensorBoard.
        evaluation: When a model may be pushed.
        model_card: What only a person can say of the model; shown in the report.
    """

    root: str = "runs/digits"
    data: str | None = None
    schema: str | None = schema_file("digits")
    source: ImageOptions = field(default_factory=ImageOptions)
    ingest: IngestOptions = field(default_factory=IngestOptions)
    checks: ImageRules = field(default_factory=ImageRules)
    # The data has 1,200 training images of 8 x 8: after the first pass they come from memory.
    input: ImageInputOptions = field(
        default_factory=lambda: ImageInputOptions(
            batch_size=32, height=8, width=8, cache="memory", seed=1
        )
    )
    # Digits stand upright and are not mirrored; one pixel is an eighth of their side.
    augment: AugmentOptions = field(
        default_factory=lambda: AugmentOptions(rotate_degrees=10, shift=0.1, zoom=0.1)
    )
    model: ModelOptions = field(default_factory=ModelOptions)
    train: TrainOptions = field(
        default_factory=lambda: TrainOptions(
            max_steps=1500, steps_per_epoch=75, early_stop=EarlyStop(patience_epochs=6)
        )
    )
    track: TrackOptions = field(default_factory=TrackOptions)
    evaluation: EvaluationOptions = field(default_factory=EvaluationOptions)
    model_card: ModelCard = field(
        default_factory=lambda: ModelCard(
            summary="The class of an image: which digit it shows, unless `data` names others.",
            intended_use="An example of an image pipeline.",
            limits="The default digits were written by 43 people in boxes of a form, and are "
            "8 x 8 pixels: no model of them reads handwriting at large.",
            data="Unless `data` names others: the 1,797 images of scikit-learn's load_digits, the "
            "test set of UCI's Optical Recognition of Handwritten Digits.",
        )
    )

    def __post_init__(self) -> None:
        if self.data is None and self.source.labels_file is not None:
            raise UsageError("source.labels_file: give data as well, the folder of its images")
