"""Options of the image pipeline, the results of a run, and options for your own images.

    penstock run digits

On two cores of a virtual machine, with TFX 1.16 on Python 3.10, a run took 38 s. Its accuracy was
0.988 on the evaluation split, which had 608 of the 1,797 digits before the split `test` was added.

To train on your own images, write the options to a YAML file:

    penstock run digits --config cars.yaml --root runs/cars

This `cars.yaml` is for transfer learning from weights that you have:

    data: cars_train
    schema: null
    source: {labels_file: cars_train_annos.mat, class_names_file: cars_meta.mat}
    input: {height: 299, width: 299, cache: none}
    model:
      application: InceptionResNetV2
      weights: inception_resnet_v2_notop.h5
      augment: {flip_horizontal: true, rotate_degrees: 0, zoom: 0.2, brightness: 0.2}
"""

from dataclasses import dataclass

from penstock import UsageError
from penstock.recipes import (
    EvaluationOptions,
    ImageConfig,
    ImageModelOptions,
    ModelCard,
    schema_file,
)
from penstock.training import (
    AugmentOptions,
    EarlyStop,
    ImageInputOptions,
    TrainOptions,
    image_features,
)


@dataclass(frozen=True)
class Config(ImageConfig):
    """Options of the digits pipeline, in addition to those of `ImageConfig`.

    Attributes:
        data: Folder of the images; if this option is empty, scikit-learn's digits are written to
            `data` below the root and used.
        schema: Path of a curated schema.pbtxt, by default that of the digits; None infers one
            from the data.
        evaluation: Conditions for pushing a model.
    """

    root: str = "runs/digits"
    data: str = ""
    schema: str | None = schema_file("digits")
    # The data has 1,200 training images of 8 x 8 pixels; after the first pass, they are read from
    # memory.
    input: ImageInputOptions = ImageInputOptions(
        batch_size=32, height=8, width=8, cache="memory", seed=1
    )
    # Digits are upright and must not be mirrored. The images are 8 pixels wide, so a shift of 0.1
    # is less than a pixel.
    model: ImageModelOptions = ImageModelOptions(
        augment=AugmentOptions(rotate_degrees=10, shift=0.1, zoom=0.1)
    )
    train: TrainOptions = TrainOptions(
        max_steps=1500, steps_per_epoch=75, early_stop=EarlyStop(patience_epochs=6)
    )
    evaluation: EvaluationOptions = EvaluationOptions(
        thresholds={"SparseCategoricalAccuracy": 0.95},
        max_worsening={"SparseCategoricalAccuracy": 0.01},
        slice_thresholds={"SparseCategoricalAccuracy": 0.8},
        slices=(image_features.TEXT,),
    )
    model_card: ModelCard = ModelCard(
        summary="The class of an image: which digit it shows.",
        intended_use="An example of an image pipeline.",
        limits="The default digits were written by 43 people in boxes of a form, and are "
        "8 x 8 pixels: no model of them reads handwriting at large.",
        data="The 1,797 images of scikit-learn's load_digits, the "
        "test set of UCI's Optical Recognition of Handwritten Digits.",
        of_data="",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data and self.source.labels_file is not None:
            raise UsageError("source.labels_file: give data as well, the folder of its images")
