import struct
import zlib

import pytest

from penstock.components.errors import DataError, UsageError
from penstock.components.sources.base import Column
from penstock.components.sources.spark.crc import check_crc
from penstock.components.sources.spark.types import parse_columns, spark_feature
from penstock.components.tfrecord.feature_kind import FeatureKind

INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES


@pytest.mark.parametrize(
    ("name", "feature"),
    [
        ("int", (INT, False)), ("BIGINT", (INT, False)), ("boolean", (INT, False)),
        ("date", (INT, False)), ("timestamp", (INT, False)), ("float", (FLOAT, False)),
        ("double", (FLOAT, False)), ("decimal(10,2)", (FLOAT, False)), ("string", (BYTES, False)),
        ("varchar(20)", (BYTES, False)), ("binary", (BYTES, False)),
        ("array<double>", (FLOAT, True)), ("array<decimal(6, 2)>", (FLOAT, True)),
        ("array<array<int>>", None), ("map<string,int>", None), ("struct<a:int>", None),
    ],
)  # fmt: skip
def test_types(name, feature):
    assert spark_feature(name) == feature


def test_columns():
    assert parse_columns(["id bigint", " tags array<string> "]) == (
        Column("id", INT), Column("tags", BYTES, is_list=True),
    )  # fmt: skip
    with pytest.raises(UsageError, match="a column is a name and a Spark type, as 'fare double'"):
        parse_columns(["fare"])
    with pytest.raises(UsageError, match="column 'a' has Spark's type long long, which no feature"):
        parse_columns(["a long long"])
    with pytest.raises(UsageError, match="column 'a' is given 2 times"):
        parse_columns(["a int", "a int"])


def test_checksums(tmp_path):
    path = tmp_path / "part-00000"
    path.write_bytes(b"x" * 700)
    sums = struct.pack(">4siII", b"crc\0", 512, zlib.crc32(b"x" * 512), zlib.crc32(b"x" * 188))
    beside = tmp_path / ".part-00000.crc"
    beside.write_bytes(sums)
    check_crc(str(path), str(beside))
    path.write_bytes(b"x" * 699 + b"y")
    with pytest.raises(DataError, match=r"differs from its checksum .* at offset 512 to 1024"):
        check_crc(str(path), str(beside))
    path.write_bytes(b"x" * 400)
    with pytest.raises(DataError, match="at offset 0 to 512"):
        check_crc(str(path), str(beside))
    path.write_bytes(b"x" * 512)
    with pytest.raises(DataError, match="at offset 512 to 1024"):
        check_crc(str(path), str(beside))
    beside.write_bytes(b"no")
    with pytest.raises(DataError, match="is no checksum file of Hadoop"):
        check_crc(str(path), str(beside))
