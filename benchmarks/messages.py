"""Compares JSON with nested protobuf messages on users with four posts each.

In each format, a file is written and every field is read back; the total length of the posts is
checked.
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
# Maximum number of users to make before the measurement; larger files repeat them.
DISTINCT = 20_000
BYTES = "bytes per user"
JSON, PROTOBUF = "JSON lines", "protobuf"

User = dict[str, Any]
_WORDS = (
    "the", "of", "and", "in", "that", "is", "was", "for", "on", "with", "it", "from", "this", "but",
    "are", "they", "pipeline", "data", "record", "shard", "tensor", "weather", "coffee", "morning",
    "train", "station", "music", "really", "never", "always", "maybe", "today", "tomorrow",
    "yesterday", "people", "think", "know", "said", "good", "new", "first",
)  # fmt: skip
_PROTO = """
name: "penstock_bench_user.proto" package: "penstock_bench" syntax: "proto3"
message_type { name: "Post"
  field { name: "id" number: 1 label: LABEL_OPTIONAL type: TYPE_INT64 }
  field { name: "likes" number: 2 label: LABEL_OPTIONAL type: TYPE_INT64 }
  field { name: "text" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING }
}
message_type { name: "User"
  field { name: "id" number: 1 label: LABEL_OPTIONAL type: TYPE_INT64 }
  field { name: "name" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "followers" number: 3 label: LABEL_OPTIONAL type: TYPE_INT64 }
  field { name: "verified" number: 4 label: LABEL_OPTIONAL type: TYPE_BOOL }
  field { name: "created" number: 5 label: LABEL_OPTIONAL type: TYPE_INT64 }
  field { name: "posts" number: 6 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: "Post" }
}
"""


def made_users(count: int = DISTINCT, *, seed: int = 7) -> list[User]:
    """Returns users with five fields and four posts each, in ASCII, which suits JSON best."""
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
    """Writes each user as a line by `json.dumps`."""
    with path.open("w", encoding="utf-8") as out:
        for user in _over_and_over(users, count):
            out.write(json.dumps(user, separators=(",", ":")) + "\n")


def read_json(path: Path) -> int:
    """Returns the total length of the posts."""
    with path.open(encoding="utf-8") as lines:
        posts = (post for line in lines for post in json.loads(line)["posts"])
        return sum(len(post["text"]) for post in posts)


def write_protobuf(users: list[User], count: int, path: Path) -> None:
    """Writes each user as a length-prefixed message with nested posts, by `SerializeToString`."""
    message_class = user_message()
    with path.open("wb") as out:
        for user in _over_and_over(users, count):
            data = message_class(**user).SerializeToString()
            out.write(struct.pack("<I", len(data)) + data)


def read_protobuf(path: Path) -> int:
    """Returns the total length of the posts."""
    message_class, characters = user_message(), 0
    with path.open("rb") as file:
        while head := file.read(4):
            user = message_class.FromString(file.read(struct.unpack("<I", head)[0]))
            # Each field is accessed, because a JSON reader also creates every field.
            _ = user.id, user.name, user.followers, user.verified, user.created
            for post in user.posts:
                _ = post.id, post.likes
                characters += len(post.text)
    return characters


def user_message() -> Any:
    """Returns the class of `message User` with `repeated Post posts`, without protoc."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    file = text_format.Parse(_PROTO, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName("penstock_bench.User")
    if hasattr(message_factory, "GetMessageClass"):  # from protobuf 4.22 on
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


Write = Callable[[list[User], int, Path], None]
FORMATS: dict[str, tuple[Write, Callable[[Path], int]]] = {
    JSON: (write_json, read_json),
    PROTOBUF: (write_protobuf, read_protobuf),
}


def path_of(name: str, users: int) -> Path:
    """Returns the path of the users' file in a format."""
    return data_folder() / f"users-with-posts-{users}" / name.replace(" ", "-")


def prepare(users: int) -> None:
    """Writes the users in all formats, unless they exist."""
    made = made_users(min(users, DISTINCT))
    for name, (write, _) in FORMATS.items():
        make_once(path_of(name, users), partial(write, made, users))


def write_users(way: Write, users: int) -> Measured:
    """Measures writing; the extra figure is the file's size in bytes per user."""
    made = made_users(min(users, DISTINCT))
    user_message()  # imports protobuf now, so that this is not measured
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        path = Path(folder, "users")

        def work() -> int:
            way(made, users, path)
            return users

        found = measure(work)
        return replace(found, extra={BYTES: path.stat().st_size / users})


def read_users(way: Callable[[Path], int], name: str, users: int) -> Measured:
    """Measures reading, and checks the total length of the posts."""
    user_message()

    def work() -> int:
        characters = way(path_of(name, users))
        if characters != users * POSTS * POST_CHARACTERS:
            raise DataError(f"{characters:,} characters of posts were read of {users:,} users")
        return users

    return measure(work)
