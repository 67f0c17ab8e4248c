"""Users with four posts each as JSON, as nested protobuf messages, as tf.train.Example.

Each format writes a file and reads every field of it again; the length of all posts is checked.
An Example has no nested messages: there the posts are three lists of equal length.
"""

import json
import random
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock.benchmarks.harness import Measured, data_folder, make_once, measure
from penstock.components.errors import DataError

POSTS, POST_CHARACTERS = 4, 70
# Made once and written over and over, so that making them is not measured.
DISTINCT = 20_000
BATCH_ROWS = 1024
BYTES = "bytes a user"
JSON, PROTOBUF = "JSON lines", "protobuf"
EXAMPLE, PENSTOCK = "tf.train.Example in Python", "row Examples, Penstock"

User = dict[str, Any]
_WORDS = (
    "the", "of", "and", "in", "that", "is", "was", "for", "on", "with", "it", "from", "this", "but",
    "are", "they", "pipeline", "data", "record", "shard", "tensor", "weather", "coffee", "morning",
    "train", "station", "music", "really", "never", "always", "maybe", "today", "tomorrow",
    "yesterday", "people", "think", "know", "said", "good", "new", "first",
)  # fmt: skip


def made_users(count: int = DISTINCT, *, seed: int = 7) -> list[User]:
    """Returns users of five fields and their posts, in plain ASCII, which is JSON's best case."""
    chance = random.Random(seed)
    text = " ".join(chance.choices(_WORDS, k=50_000))
    users = []
    for number in range(count):
        starts = chance.choices(range(len(text) - POST_CHARACTERS), k=POSTS)
        users.append(
            {
                "id": 10**12 + number,
                "name": f"user_{number}",
                "followers": int(chance.paretovariate(0.8)) % 10**8,
                "verified": chance.random() < 0.02,
                "created": 1_600_000_000 + chance.randrange(10**8),
                "posts": [
                    {
                        "id": 10 * number + i,
                        "likes": chance.randrange(10_000),
                        "text": text[start : start + POST_CHARACTERS],
                    }
                    for i, start in enumerate(starts)
                ],
            }
        )
    return users


def _over_and_over(users: list[User], count: int) -> Iterator[User]:
    for start in range(0, count, len(users)):
        yield from users[: count - start]


def write_json(users: list[User], count: int, path: Path) -> None:
    """`json.dumps` a line; `json.loads`."""
    with path.open("w", encoding="utf-8") as out:
        for user in _over_and_over(users, count):
            out.write(json.dumps(user, separators=(",", ":")) + "\n")


def read_json(path: Path) -> int:
    """Returns the length of all posts."""
    with path.open(encoding="utf-8") as lines:
        posts = (post for line in lines for post in json.loads(line)["posts"])
        return sum(len(post["text"]) for post in posts)


def write_protobuf(users: list[User], count: int, path: Path) -> None:
    """A message with nested ones behind its length; `SerializeToString`, `FromString`."""
    message_class = user_message()
    with path.open("wb") as out:
        for user in _over_and_over(users, count):
            data = message_class(**user).SerializeToString()
            out.write(struct.pack("<I", len(data)) + data)


def read_protobuf(path: Path) -> int:
    """Returns the length of all posts."""
    message_class, characters = user_message(), 0
    with path.open("rb") as file:
        while head := file.read(4):
            user = message_class.FromString(file.read(struct.unpack("<I", head)[0]))
            # Each field is touched: a JSON reader has made them all.
            _ = user.id, user.name, user.followers, user.verified, user.created
            for post in user.posts:
                _ = post.id, post.likes
                characters += len(post.text)
    return characters


def user_message() -> Any:
    """Returns the class of `message User` with `repeated Post posts`, made without a compiler."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="penstock_bench_user.proto", package="penstock_bench", syntax="proto3"
    )
    fields = {
        "Post": {"id": field.TYPE_INT64, "likes": field.TYPE_INT64, "text": field.TYPE_STRING},
        "User": {
            "id": field.TYPE_INT64,
            "name": field.TYPE_STRING,
            "followers": field.TYPE_INT64,
            "verified": field.TYPE_BOOL,
            "created": field.TYPE_INT64,
        },
    }
    for name, kinds in fields.items():
        message = file.message_type.add(name=name)
        for number, (of, kind) in enumerate(kinds.items(), 1):
            message.field.add(name=of, number=number, type=kind, label=field.LABEL_OPTIONAL)
    message.field.add(
        name="posts",
        number=6,
        type_name="Post",
        type=field.TYPE_MESSAGE,
        label=field.LABEL_REPEATED,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName("penstock_bench.User")
    if hasattr(message_factory, "GetMessageClass"):  # protobuf >= 4.22
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


def flat(user: User) -> dict[str, list[Any]]:
    """Returns a user as lists by feature: bytes and integers."""
    plain = {name: [_plain(value)] for name, value in user.items() if name != "posts"}
    posts = {
        f"post_{name}": [_plain(post[name]) for post in user["posts"]] for name in user["posts"][0]
    }
    return plain | posts


def write_example(users: list[User], count: int, path: Path) -> None:
    """tf.train.Example a user, TFRecordWriter; TFRecordDataset, `FromString`."""
    import tensorflow as tf

    def feature(values: Any) -> Any:
        if isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    with tf.io.TFRecordWriter(str(path)) as out:
        for user in _over_and_over(users, count):
            features = {name: feature(values) for name, values in flat(user).items()}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            out.write(example.SerializeToString())


def read_example(path: Path) -> int:
    """Returns the length of all posts."""
    import tensorflow as tf

    characters = 0
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        for name in ("id", "followers", "verified", "created"):
            _ = features[name].int64_list.value[0]
        _ = features["name"].bytes_list.value[0]
        for name in ("post_id", "post_likes"):
            _ = list(features[name].int64_list.value)
        characters += sum(map(len, features["post_text"].bytes_list.value))
    return characters


def write_penstock(users: list[User], count: int, path: Path) -> None:
    """Whole batches encoded by Penstock; whole batches read by `tf.io.parse_example`."""
    import pyarrow as pa

    from penstock.components.tfrecord.encoder import encode_examples
    from penstock.components.tfrecord.writer import ShardWriter, frame_records

    writer = ShardWriter(path.parent, path.name)
    for start in range(0, count, len(users)):
        some = users[: count - start]
        rows = [flat(user) for user in some]
        columns = {name: pa.array([row[name] for row in rows]) for name in rows[0]}
        batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        writer.write(frame_records(encode_examples(batch)))
    writer.finish()


def _plain(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else int(value)


def read_penstock(path: Path) -> int:
    """Returns the length of all posts."""
    import tensorflow as tf

    spec = {
        name: tf.io.FixedLenFeature(
            [len(values)], tf.string if isinstance(values[0], bytes) else tf.int64
        )
        for name, values in flat(made_users(1)[0]).items()
    }
    batches = (
        tf.data.TFRecordDataset(str(path))
        .batch(BATCH_ROWS)
        .map(lambda records: tf.io.parse_example(records, spec))
    )
    lengths = batches.map(
        lambda users: tf.reduce_sum(tf.cast(tf.strings.length(users["post_text"]), tf.int64))
    )
    return int(lengths.reduce(tf.constant(0, tf.int64), lambda total, some: total + some))


Write = Callable[[list[User], int, Path], None]
FORMATS: dict[str, tuple[Write, Callable[[Path], int]]] = {
    JSON: (write_json, read_json),
    PROTOBUF: (write_protobuf, read_protobuf),
    EXAMPLE: (write_example, read_example),
    PENSTOCK: (write_penstock, read_penstock),
}


def users_of(name: str, users: int) -> int:
    """Returns the number of users that a format writes: a tenth as Examples, which take long."""
    return max(1, users // 10) if name == EXAMPLE else users


def path_of(name: str, users: int) -> Path:
    """Returns the file of the users in a format."""
    return data_folder() / f"users-with-posts-{users}" / name.replace(" ", "-")


def prepare(users: int) -> None:
    """Writes the users in all formats, unless they exist."""
    for name, (write, _) in FORMATS.items():
        count = users_of(name, users)
        made = made_users(min(count, DISTINCT))
        make_once(path_of(name, users), partial(write, made, count))


def write_users(way: Write, name: str, users: int) -> Measured:
    """Measures writing; the extra figure is the size."""
    count = users_of(name, users)
    made = made_users(min(count, DISTINCT))
    _import_for(name)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        path = Path(folder, "users")

        def work() -> int:
            way(made, count, path)
            return count

        found = measure(work)
        return replace(found, extra={BYTES: path.stat().st_size / count})


def read_users(way: Callable[[Path], int], name: str, users: int) -> Measured:
    """Measures reading, and checks the length of all posts."""
    count = users_of(name, users)
    _import_for(name)

    def work() -> int:
        characters = way(path_of(name, users))
        if characters != count * POSTS * POST_CHARACTERS:
            raise DataError(f"{characters:,} characters of posts were read of {count:,} users")
        return count

    return measure(work)


def _import_for(name: str) -> None:
    """Imports what a format needs, so that it is not measured."""
    if name == PROTOBUF:
        user_message()
    elif name != JSON:
        import pyarrow  # noqa: F401
        import tensorflow as tf

        from penstock.components.tfrecord import encoder, writer  # noqa: F401

        tf.constant(0)
