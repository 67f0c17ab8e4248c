import tensorflow as tf
from tfx.components.trainer.fn_args_utils import FnArgs

from penstock.components.trainer.input.options import InputOptions
from penstock.pipelines.blocks.config import TableConfig
from penstock.pipelines.blocks.run_tables import TableData
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.blocks.training_options import training_options


def options_of(reading):
    return training_options(TableConfig(input=reading), "penstock.pipelines.taxi.model.run_fn")


def test_only_training_reads_batches_of_the_options_size(tmp_path, monkeypatch):
    column = tf.io.FixedLenFeature([1], tf.int64)
    monkeypatch.setattr(TableData, "_spec", {"x": column, "y_xf": column})
    path = str(tmp_path / "rows")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(30):
            value = tf.train.Feature(int64_list=tf.train.Int64List(value=[number % 3]))
            features = tf.train.Features(feature={"x": value, "y_xf": value})
            writer.write(tf.train.Example(features=features).SerializeToString())
    args = FnArgs(
        train_files=[path],
        eval_files=[path],
        custom_config=options_of(InputOptions(batch_size=7, seed=1)),
    )
    data = TableData(args, (Target("y", "classes", classes=("a", "b", "c")),))
    sizes = {
        "train": data.train_input.train().take(1),
        "fitting": data.fitting_input.eval(),
        "eval": data.eval_input.eval(),
    }
    found = {name: [len(label) for _, label in batches] for name, batches in sizes.items()}
    assert found == {"train": [7], "fitting": [30], "eval": [30]}


def test_facts_of_labels_count_rows_at_the_end_of_the_files(tmp_path, monkeypatch):
    monkeypatch.setattr(TableData, "_spec", {"y_xf": tf.io.FixedLenFeature([1], tf.int64)})
    rows = []
    for label in (0, 1):
        value = tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
        example = tf.train.Example(features=tf.train.Features(feature={"y_xf": value}))
        rows.append(example.SerializeToString())
    path = str(tmp_path / "rows")
    with tf.io.TFRecordWriter(path) as writer:
        for row in [rows[0]] * 201_000 + [rows[1]] * 3:
            writer.write(row)
    args = FnArgs(train_files=[path], custom_config=options_of(InputOptions(batch_size=4096)))
    facts = TableData(args, (Target("y", "binary", classes=("no", "yes")),)).facts.labels["y_xf"]
    assert facts.class_counts == (201_000, 3)
    assert facts.class_weights[1] > 1000
