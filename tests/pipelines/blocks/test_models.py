import keras
import numpy as np
import pytest

from penstock.pipelines.blocks.config import ImageModelOptions, TableModelOptions
from penstock.pipelines.blocks.facts import LabelFacts, ModelFacts
from penstock.pipelines.blocks.models import image_model, table_model
from penstock.pipelines.blocks.target import Target

ANIMALS = (Target("animal", "classes", classes=("cat", "dog", "hen")),)


def predictions(options, shape=(32, 32, 3)):
    model = image_model(ModelFacts(ANIMALS, {"image": shape}), options)
    assert model.input["image"].dtype == "float32"  # Keras casts uint8 to float32 in each call
    batch = np.random.default_rng(0).integers(0, 256, (2, *shape)).astype(np.uint8)
    return model, model({"image": batch}, training=False)


@pytest.mark.parametrize("side", [1, 8, 33])
def test_small_network_accepts_any_image_size(side):
    shape = (side, side + 1, 1)
    _, output = predictions(ImageModelOptions(filters=(4, 8), hidden_units=0), shape)
    assert output.shape == (2, 3)
    np.testing.assert_allclose(np.sum(output, axis=1), 1, atol=1e-5)


@pytest.mark.slow
def test_application_is_the_base_of_the_image_model(tmp_path):
    keras.utils.set_random_seed(1)
    network = keras.applications.MobileNetV2(
        weights=None, include_top=False, input_shape=(32, 32, 3)
    )
    network.save_weights(tmp_path / "mobilenet.weights.h5")
    options = ImageModelOptions(
        application="MobileNetV2", weights=str(tmp_path / "mobilenet.weights.h5"), hidden_units=0
    )
    model, output = predictions(options)
    assert output.shape == (2, 3)
    # The base is frozen: only the last layer is trained, and dropout has no weights.
    assert [weight.shape for weight in model.trainable_weights] == [(1280, 3), (3,)]
    base = model.get_layer("mobilenetv2").network
    pairs = zip(network.weights, base.weights, strict=True)
    assert all(np.array_equal(ours, theirs) for ours, theirs in pairs)


CHURNED = Target("churned?", "binary", classes=("no", "yes"))
PRICE = Target("price", "regression")
LABELS = {
    "churned__xf": LabelFacts(100, 0.1, 0.3, (90, 10)),
    "price_xf": LabelFacts(100, 200_000.0, 50_000.0),
}
ROWS = {
    "numbers_xf": np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32),
    "categories_xf": np.array([[0, 4], [1, 0], [4, 1], [2, 2]]),
}


def table(targets, **options):
    keras.utils.set_random_seed(1)
    model_options = TableModelOptions(hidden_units=(4,), **options)
    facts = ModelFacts(targets, {"numbers_xf": (3,)}, read_labels=lambda: LABELS)
    return table_model(facts, model_options, categories=[5, 5])


def test_regression_starts_at_the_mean_of_the_labels():
    value = table((PRICE,))(ROWS).numpy()
    assert abs(value.mean() - 200_000) < 3 * 50_000
    # The loss is in units of the variance of the labels.
    assert table((PRICE,)).evaluate(ROWS, np.full((4, 1), 2e5), verbose=0)[0] < 100


def test_table_model_has_one_output_per_target():
    model = table((CHURNED, PRICE))
    assert {name: output.shape for name, output in model(ROWS).items()} == {
        "churned__xf": (4, 1),
        "price_xf": (4, 1),
    }
    labels = {"churned__xf": np.zeros((4, 1)), "price_xf": np.zeros((4, 1))}
    assert model.evaluate(ROWS, labels, verbose=0, return_dict=True)["loss"] > 0


def test_class_weights_make_rare_classes_count_equally():
    labels = np.array([[1], [0], [0], [0]])
    rare, frequent = labels == 1, labels == 0
    model, weighted = table((CHURNED,)), table((CHURNED,), class_weights=True)
    losses = -np.log(np.where(rare, model(ROWS), 1 - model(ROWS).numpy()))
    # The class weights are 100 / (2 * 10) = 5 and 100 / (2 * 90) = 1 / 1.8.
    expected = (losses[rare].sum() * 5 + losses[frequent].sum() / 1.8) / 4
    np.testing.assert_allclose(weighted.evaluate(ROWS, labels, verbose=0)[0], expected, rtol=1e-5)


def test_labels_are_counted_only_for_a_model_that_needs_them():
    def read():
        raise AssertionError("reads all rows")

    facts = ModelFacts((CHURNED,), {"numbers_xf": (3,)}, read_labels=read)
    assert list(table_model(facts, TableModelOptions()).input) == ["numbers_xf"]
    with pytest.raises(AssertionError, match="reads all rows"):
        table_model(facts, TableModelOptions(class_weights=True))
