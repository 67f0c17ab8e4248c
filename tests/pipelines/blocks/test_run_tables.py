import tensorflow as tf
from row_files import example

from penstock.components.trainer.input.options import InputOptions
from penstock.pipelines.blocks.config import TableConfig
from penstock.pipelines.blocks.run_tables import TableData
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.blocks.training_options import read_options, training_options

COLUMN = tf.io.FixedLenFeature([1], tf.int64)
SPEC = {"x": COLUMN, "y_xf": COLUMN}


def data(reading, classes):
    config = TableConfig(input=reading)
    options = read_options(training_options(config, "penstock.pipelines.taxi.model.run_fn"))
    return TableData(SPEC, (Target("y", "classes", classes=classes),), options)


def rows(path, labels):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for label in labels:
            writer.write(example(x=[label], y_xf=[label]))
    return [str(path)]


def test_only_training_reads_batches_of_the_options_size(tmp_path):
    files = rows(tmp_path / "rows", [number % 3 for number in range(30)])
    table = data(InputOptions(batch_size=7, seed=1), ("a", "b", "c"))
    [(_, label)] = table.train_input(files).train().take(1)
    assert len(label) == 7
    assert [len(label) for _, label in table.eval_input(files).eval()] == [30]


def test_facts_of_labels_count_rows_at_the_end_of_the_files(tmp_path):
    files = rows(tmp_path / "rows", [0] * 5_000 + [1] * 3)
    facts = data(InputOptions(batch_size=1024), ("no", "yes")).facts(files).labels["y_xf"]
    assert facts.class_counts == (5_000, 3)
    assert facts.class_weights[1] > 800
