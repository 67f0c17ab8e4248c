"""Evaluation in batches gives the same numbers as TFMA's own pipeline in all supported cases."""

import gc
import json
import weakref

import hypothesis
import hypothesis.strategies as st
import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
from drawn import drawn
from google.protobuf import json_format, text_format
from local_beam import local_pipeline
from tensorflow_model_analysis.proto import config_pb2
from tfx_bsl.tfxio import tf_example_record

from penstock.components.batches.fallback import NotInBatchesError
from penstock.components.batches.shards import shard_tasks
from penstock.components.errors import DataError
from penstock.components.evaluator import inputs, tasks
from penstock.components.evaluator.evaluate import evaluate, require_in_batches

PARSED = {"x": (tf.float32,), "label": (tf.int64, -1), "class": (tf.int64, 0)}


def config(text):
    return text_format.Parse(text, config_pb2.EvalConfig())


def metrics(*names, **configs):
    """Returns the `metrics` fields of a `metrics_specs` entry, as text."""
    entries = [f'metrics {{class_name: "{name}"}}' for name in names]
    entries += [
        f"metrics {{class_name: {json.dumps(name)} config: {json.dumps(json.dumps(value))}}}"
        for name, value in configs.items()
    ]
    return " ".join(entries)


SLICES = """
slicing_specs {} slicing_specs {feature_keys: "town"} slicing_specs {feature_keys: "doubled"}
slicing_specs {feature_keys: "tags" feature_values {key: "hour" value: "1"}}
slicing_specs {feature_values {key: "town" value: "oslo"}} slicing_specs {feature_keys: "nowhere"}
"""


def each(*names, **configs):
    """Returns a `metrics` field for each metric, as text."""
    return [*map(metrics, names), *(metrics(**{name: of}) for name, of in configs.items())]


# Metrics by task.
METRICS = {
    "binary": each(
        *("ExampleCount", "BinaryAccuracy", "BinaryCrossentropy", "Precision", "Recall", "AUC"),
        *("AUCPrecisionRecall", "MeanLabel", "MeanPrediction", "Calibration", "MissRate"),
        *("CalibrationPlot", "ConfusionMatrixPlot", "F1Score", "Specificity", "Prevalence"),
        *("MatthewsCorrelationCoefficient", "BalancedAccuracy", "TruePositives"),
        *("MeanSquaredError", "SquaredPearsonCorrelation"),
        ConfusionMatrixAtThresholds={"thresholds": [0.7, 0.2, 0.5]},
        SensitivityAtSpecificity={"specificity": 0.6},
    ),
    "classes": each(
        *("SparseCategoricalAccuracy", "SparseCategoricalCrossentropy"),
        "MultiClassConfusionMatrixPlot",
        MultiClassConfusionMatrixAtThresholds={"thresholds": [0.2, 0.4, 0.6]},
        SparseTopKCategoricalAccuracy={"k": 2},
    ),
    "regression": each(
        *("MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError"),
        *("MeanSquaredLogarithmicError", "RootMeanSquaredError", "Calibration"),
        *("SquaredPearsonCorrelation", "MeanPrediction", "MeanLabel"),
    ),
}
SIGNATURES = {
    "binary": ("yes", "label_xf"), "classes": ("classes", "class"), "regression": ("number", "y"),
    "a dict of outputs": ("dict", "class"),
}  # fmt: skip
# The outputs of the signature "many", and the task of each.
OUTPUTS = {"label": "binary", "class": "classes", "y": "regression"}
WEIGHT = 'example_weight_key: "weight" '


def specs(entries, more=""):
    return f"metrics_specs {{ {' '.join(entries)} {more} }} "


def model_specs(task, *more):
    """Returns one `model_specs` entry for each text in `more`, which adds fields to that entry."""
    if task == "several":
        labels = " ".join(f'label_keys {{key: "{key}" value: "{key}"}}' for key in OUTPUTS)
        fields = f'signature_name: "many" {labels}'
    else:
        fields = 'signature_name: "{}" label_key: "{}" '.format(*SIGNATURES[task])
        fields += 'preprocessing_function_names: "transform"'
    return " ".join(f"model_specs {{ {fields} {one} }} " for one in more)


CASES = {
    "binary": model_specs("binary", WEIGHT)
    + specs(
        [*each("WeightedExampleCount"), *METRICS["binary"]], "example_weights {weighted: true}"
    ),
    "classes": model_specs("classes", "") + specs(METRICS["classes"]),
    "regression": model_specs("regression", WEIGHT) + specs(METRICS["regression"]),
    "a dict of outputs": model_specs("a dict of outputs", "") + specs(METRICS["classes"]),
    "several": model_specs("several", WEIGHT)
    + " ".join(specs(METRICS[task], f"output_names: '{of}'") for of, task in OUTPUTS.items()),
}


@pytest.fixture(scope="module")
def examples(tmp_path_factory, write_examples, random):
    rows = []
    for i in range(240):
        x = random.normal()
        rows.append(
            {
                "x": x,
                "y": abs(x + random.normal()) * (i % 7 > 0),
                "label": int(x + random.normal() > 0),
                "class": int(random.integers(3)),
                "weight": float(random.integers(4)) / 2 + 0.1 * (i % 3),
                "town": [None, "oslo", "rome"][i % 3],
                "hour": i % 5,
                "tags": [None, "a", ["a", "b"], ["b", "c", "b"]][i % 4],
            }
        )
    return write_examples(tmp_path_factory.mktemp("data") / "Split-eval", rows)


@pytest.fixture(scope="module")
def models(tmp_path_factory, save_model):
    """Two models, one of which is right more often than the other."""

    def yes(f):
        return {"outputs": tf.sigmoid(2 * f["x"])[:, None]}

    def classes(f):
        logits = tf.stack([f["x"], 0.3 * f["x"] + 0.2, tf.cast(f["class"], tf.float32)], axis=1)
        return {"outputs": tf.nn.softmax(logits)}

    def transform(f):
        return {"label_xf": tf.cast(f["label"], tf.float32), "doubled": f["label"] * 2}

    # This signature takes a feature by its name, not the serialized record.
    @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32, "x")])
    def number(x):
        return {"outputs": tf.abs(x[:, 0])}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def single(examples):
        return {"outputs": tf.strings.length(tf.ensure_shape(examples, [1]))}

    folder = tmp_path_factory.mktemp("models")
    better = save_model(
        folder / "better",
        PARSED,
        yes=yes,
        transform=transform,
        classes=classes,
        dict=lambda f: {"probabilities": classes(f)["outputs"], "more": f["x"]},
        many=lambda f: {"label": yes(f)["outputs"], "class": classes(f)["outputs"], "y": f["x"]},
        number=number,
        single=single,
    )
    worse = save_model(
        folder / "worse",
        PARSED,
        yes=lambda f: {"outputs": tf.sigmoid(1 - f["x"])[:, None]},
        transform=transform,
    )
    return better, worse


def stock(examples, output, eval_config, models):
    """Evaluates models with TFMA's own pipeline."""
    files = tf_example_record.TFExampleRecord(
        [f"{examples}/*"], raw_record_column_name=tfma.ARROW_INPUT_COLUMN
    )
    with local_pipeline() as pipeline:
        _ = (
            pipeline
            | files.BeamSource()
            | tfma.ExtractEvaluateAndWriteResults(
                eval_config=eval_config,
                eval_shared_model=models[0] if len(models) == 1 else models,
                output_path=str(output),
            )
        )


def in_batches(examples, output, eval_config, models, engine=1):
    tasks = shard_tasks(str(examples.parent), "eval")
    evaluate(tasks, str(output), eval_config=eval_config, models=models, engine=engine)


def values(path, message):
    """All scalar values in a message, by their paths of field names and list positions."""
    if isinstance(message, dict):
        return {k: v for n in message for k, v in values((*path, n), message[n]).items()}
    if isinstance(message, list):
        return {k: v for n, one in enumerate(message) for k, v in values((*path, n), one).items()}
    return {path: float(message) if isinstance(message, int | float | str) else message}


def read(messages, field):
    """Numbers in a result, by slice, metric key, and path of field names."""
    found = {}
    for message in messages:
        where = json_format.MessageToJson(message.slice_key)
        for entry in getattr(message, field):
            key = json_format.MessageToJson(entry.key, sort_keys=True)
            found |= values((where, key), json_format.MessageToDict(entry.value))
    return found


def verdict(output):
    found = json_format.MessageToDict(tfma.load_validation_result(str(output)))
    for part in (found.get("validationDetails", {}), found):
        for name in part:
            if isinstance(part[name], list):
                part[name].sort(key=str)
    return found


def assert_same(output, expected):
    for load, field in (
        (tfma.load_metrics, "metric_keys_and_values"),
        (tfma.load_plots, "plot_keys_and_values"),
    ):
        ours, theirs = read(load(str(output)), field), read(load(str(expected)), field)
        assert ours.keys() == theirs.keys()
        # Keras sums in float32, and our batches differ from TFMA's, so the last digits may differ.
        assert ours == pytest.approx(theirs, rel=2e-5, abs=1e-6, nan_ok=True)
    assert verdict(output) == verdict(expected)
    ours, theirs = (json.loads((p / "eval_config.json").read_text()) for p in (output, expected))
    assert ours == theirs


@pytest.fixture
def compared(examples, shared_models, tmp_path_factory, monkeypatch):
    """A function that compares our evaluation of models with TFMA's, and returns our folder."""
    monkeypatch.setattr(tasks, "_MOST_ROWS", 50)

    def compare(text, *models):
        folder = tmp_path_factory.mktemp("case")
        eval_config, shared = shared_models(config(text), *models)
        for evaluated, name in ((in_batches, "ours"), (stock, "stock")):
            evaluated(examples, folder / name, eval_config, shared)
        assert_same(folder / "ours", folder / "stock")
        return folder / "ours"

    return compare


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_metrics_of_each_case_equal_tfma(case, models, compared):
    slices = (
        SLICES if case != "several" else 'slicing_specs {} slicing_specs {feature_keys: "town"}'
    )
    assert tfma.load_eval_result(str(compared(CASES[case] + slices, models[0]))).slicing_metrics


def test_batches_read_without_garbage_collection_are_released_after_use(
    examples, models, shared_models, tmp_path, monkeypatch
):
    predict = inputs.Predictor.batch
    batches, alive = [], []

    def watched(self, records):
        if len(records) <= 8:  # the error analysis has larger batches
            batches.append(weakref.ref(records))
            alive.append(sum(batch() is not None for batch in batches))
        return predict(self, records)

    monkeypatch.setattr(inputs.Predictor, "batch", watched)
    monkeypatch.setattr(tasks, "_MOST_ROWS", 8)
    eval_config, shared = shared_models(config(CASES["binary"] + SLICES), models[0])
    gc.disable()
    try:
        in_batches(examples, tmp_path, eval_config, shared)
    finally:
        gc.enable()
    assert len(alive) == 30
    assert max(alive) <= 2  # the batch in use and the batch that was read last


@pytest.mark.slow
def test_two_processes_give_the_same_files_as_one(examples, models, shared_models, tmp_path):
    eval_config, shared = shared_models(config(CASES["classes"] + SLICES), models[0])
    for count in (1, 2):
        in_batches(examples, tmp_path / str(count), eval_config, shared, engine=count)
    one, two = (
        {path.name: path.read_bytes() for path in (tmp_path / count).iterdir()} for count in "12"
    )
    assert one.keys() == two.keys()
    # The maps in the config are written in no fixed order.
    assert {name for name in one if one[name] != two[name]} <= {"eval_config.json"}


JUDGED = """
model_specs {signature_name: "yes" label_key: "label_xf" preprocessing_function_names: "transform"}
slicing_specs {} slicing_specs {feature_keys: "town"}
metrics_specs {
  metrics {class_name: "ExampleCount"}
  metrics {
    class_name: "BinaryAccuracy"
    threshold {
      value_threshold {lower_bound {value: 0.5}}
      change_threshold {direction: HIGHER_IS_BETTER absolute {value: -0.01}}
    }
    per_slice_thresholds {
      slicing_specs {feature_keys: "town"}
      threshold {value_threshold {lower_bound {value: 0.7}}}
    }
  }
  metrics {class_name: "Precision"}
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("candidate_is_better", [True, False])
def test_validation_against_a_baseline_equals_tfma(candidate_is_better, models, compared):
    pair = models if candidate_is_better else models[::-1]
    result = tfma.load_validation_result(str(compared(JUDGED, *pair)))
    assert result.validation_ok is candidate_is_better
    failed = sum(len(part.failures) for part in result.metric_validations_per_slice)
    # If the candidate is worse, 8 thresholds fail. In each of the three slices, `value_threshold`
    # and `change_threshold` fail; in two of them, the stricter `value_threshold` of `town` fails
    # too.
    assert failed == (0 if candidate_is_better else 8)


@pytest.fixture
def evaluate_rows(models, shared_models, write_examples, tmp_path):
    """A function that evaluates rows with the better model, into `tmp_path / "out"`."""

    def run(rows, text):
        folder = write_examples(tmp_path / "Split-eval", rows)
        in_batches(folder, tmp_path / "out", *shared_models(config(text), models[0]))

    return run


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (metrics("BinaryCrossEntropy"), "metrics not known in batches: binary_crossentropy"),
        (
            f"{metrics('Precision')} binarize {{class_ids {{values: [0]}}}}",
            "metrics not known in batches: _binary_confusion_matrices:thresholds=[0.5]",
        ),
        (metrics("ExampleCount"), "rows that are ragged, texts or without a value"),
    ],
)
def test_metric_or_rows_not_supported_in_batches_are_named(spec, said, evaluate_rows, tmp_path):
    rows = [{"x": 1.0, "class": 1, "weight": weight} for weight in (None, None, 1.0, 5.0)]
    text = (
        'model_specs {signature_name: "classes" label_key: "class" example_weight_key: "weight"} '
        f"metrics_specs {{{spec} example_weights {{weighted: true}}}}"
    )
    with pytest.raises(NotInBatchesError) as caught:
        evaluate_rows(rows, text)
    assert str(caught.value) == said
    assert not (tmp_path / "out").exists()


def test_model_of_single_rows_is_left_to_tfma(evaluate_rows):
    rows = [{"x": 1.0, "class": 1}] * 4
    text = 'model_specs {signature_name: "single" label_key: "class"} '
    text += f"metrics_specs {{{metrics('MeanPrediction')}}}"
    with pytest.raises(NotInBatchesError, match=r"^a model that does not take 2 rows at once: "):
        evaluate_rows(rows, text)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"x": float("nan"), "label": 1},
            "predictions are NaN in 1 of 1 rows; expected numbers: train again with a lower "
            "learning rate, or give the model features without NaN",
        ),
        (
            {"x": 1.0, "label": 2},
            "label 2 in 1 of 1 rows; a metric of two classes expects labels within 0..1",
        ),
    ],
)
def test_prediction_or_label_no_metric_can_add_is_one_line(row, said, evaluate_rows):
    rows = [{"x": 1.0, "label": 0}, row, {"x": 2.0, "label": 0}]
    text = (
        'model_specs {signature_name: "yes" label_key: "label"} '
        f"metrics_specs {{{metrics('AUC')}}}"
    )
    with pytest.raises(DataError) as caught:
        evaluate_rows(rows, text)
    assert str(caught.value) == said  # a file is a batch, and this row is alone in its file


@pytest.mark.parametrize(
    ("text", "model_type", "reason"),
    [
        (
            'metrics_specs {query_key: "id"} slicing_specs {slice_keys_sql: "SELECT 1"} '
            "cross_slicing_specs {} options {compute_confidence_intervals {value: true} "
            'min_slice_size {value: 2} disabled_outputs {values: "plots"}}',
            "tf_generic",
            "query_key, slice_keys_sql, cross_slicing_specs, confidence intervals, "
            "min_slice_size, disabled_outputs",
        ),
        ("", "tf_keras", "metrics inside the model"),
        ("", "tf_js", "a model that is no SavedModel"),
    ],
)
def test_config_that_only_tfma_supports_is_named(text, model_type, reason, models, shared_models):
    plain = config('model_specs {signature_name: "yes" label_key: "label"}')
    _, shared = shared_models(plain, models[0])
    require_in_batches(plain, shared)
    with pytest.raises(NotInBatchesError, match=f"^{reason}$"):
        require_in_batches(config(text), [shared[0]._replace(model_type=model_type)])


def test_sequence_examples_with_slices_are_evaluated_by_context(
    shared_models, save_model, tmp_path
):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def steps(examples):
        lists = {"s": tf.io.RaggedFeature(tf.float32)}
        _, found, _ = tf.io.parse_sequence_example(examples, {}, lists)
        return {"outputs": tf.reduce_sum(found["s"], axis=[1, 2])[:, None]}

    (tmp_path / "Split-eval").mkdir()
    with tf.io.TFRecordWriter(str(tmp_path / "Split-eval/data")) as file:
        for i in range(6):
            row = tf.train.SequenceExample()
            row.context.feature["y"].float_list.value.append(i % 2)
            for _ in range(i):
                row.feature_lists.feature_list["s"].feature.add().float_list.value.append(1.0)
            file.write(row.SerializeToString())
    text = 'model_specs {signature_name: "steps" label_key: "y"} slicing_specs {feature_keys: "y"} '
    text += f"metrics_specs {{{metrics('ExampleCount', 'MeanPrediction')}}}"
    model = save_model(tmp_path / "model", {}, steps=steps)
    in_batches(tmp_path / "Split-eval", tmp_path / "out", *shared_models(config(text), model))
    found = tfma.load_eval_result(str(tmp_path / "out")).slicing_metrics
    means = {key[0][1]: values[""][""]["mean_prediction"]["doubleValue"] for key, values in found}
    assert means == {0.0: 2.0, 1.0: 3.0}


@st.composite
def drawn_configs(draw):
    """Draws the text of a config, and whether it has a baseline."""
    task = draw(st.sampled_from([*METRICS, "several"]))
    weight = draw(st.sampled_from(["", WEIGHT]))
    counted = draw(st.sampled_from(["", "example_weights {weighted: true unweighted: true}"]))
    names = ["town", "hour", "tags", "class"] + ["doubled"] * (task != "several")
    slices = draw(st.lists(st.lists(st.sampled_from(names), max_size=2, unique=True), max_size=3))
    baseline = task == "binary" and draw(st.booleans())
    models = [f"{weight} name: 'new'", f"{weight} name: 'old' is_baseline: true"]
    text = model_specs(task, *(models if baseline else [weight]))
    for of, of_task in OUTPUTS.items() if task == "several" else [("", task)]:
        some = st.lists(st.sampled_from(METRICS[of_task]), min_size=1, max_size=5, unique=True)
        more = [counted * bool(weight), f"output_names: '{of}'" * bool(of)]
        text += specs(draw(some), " ".join(more))
    for one in slices:
        text += f"slicing_specs {{ {' '.join(f'feature_keys: {json.dumps(n)}' for n in one)} }} "
    return text, baseline


@pytest.mark.slow
def test_any_metrics_slices_and_weights_of_any_task_equal_tfma(models, compared):
    @drawn()
    @hypothesis.given(drawn_configs())
    def check(case):
        text, baseline = case
        compared(text, *models[: 1 + baseline])

    check()
