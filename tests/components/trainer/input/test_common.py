import pytest
import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.packing.options import PackOptions
from penstock.components.packing.pack import pack
from penstock.components.trainer.input.image_options import ImageInputOptions
from penstock.components.trainer.input.images import train_image_input_fn
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.input.packed import packed_train_input_fn
from penstock.components.trainer.input.rows import train_input_fn

KINDS = ("rows", "packed", "images")
ROWS = 103


@pytest.fixture(scope="module")
def make_input(tmp_path_factory, data):
    """A function that makes the training input of a kind; all have rows 0..102 as their labels."""
    root = tmp_path_factory.mktemp("kinds")
    rows = data.write_examples(root / "rows")
    pack(str(rows), root / "packed", PackOptions(block_rows=8))
    (root / "images/Split-train").mkdir(parents=True)
    for shard in range(3):
        with tf.io.TFRecordWriter(str(root / f"images/Split-train/{shard}")) as out:
            for row in range(shard, ROWS, 3):
                out.write(image(row))
    patterns = [str(root / "images/Split-train/*")]

    def make(kind, *, batch_size=10, **options):
        more = {name: options.pop(name) for name in ("start", "input_context") if name in options}
        if kind == "images":
            chosen = ImageInputOptions(batch_size=batch_size, height=2, width=2, **options)
            return train_image_input_fn(patterns, options=chosen, **more)
        chosen = InputOptions(batch_size=batch_size, **options)
        if kind == "packed":
            folder = str(root / "packed")
            return packed_train_input_fn(folder, options=chosen, label="row", **more)
        return train_input_fn(str(rows), data.spec, options=chosen, label="row", **more)

    return make


def image(row):
    feature = {
        "image/encoded": tf.train.Feature(
            bytes_list=tf.train.BytesList(
                value=[tf.io.encode_png(tf.fill([2, 2, 3], tf.cast(row, tf.uint8))).numpy()]
            )
        ),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[row])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_memory_are_limited_for_every_kind(make_input, kind):
    tuning = make_input(kind, private_threads=3, ram_budget_mib=64).options()
    assert tuning.threading.private_threadpool_size == 3
    assert tuning.autotune.ram_budget == 64 * 2**20


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_replicas_cannot_share_is_refused(make_input, kind):
    context = tf.distribute.InputContext(1, 0, 2)
    with pytest.raises(UsageError, match="must be a multiple of the 2 replicas in sync, got 5"):
        make_input(kind, batch_size=5, input_context=context)
