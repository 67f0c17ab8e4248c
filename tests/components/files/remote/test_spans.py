"""Spans on moto's S3 server on loopback, as the driver of `ShardedExampleGen` finds them."""

import pytest
from tfx.components.example_gen import utils
from tfx.orchestration import data_types
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.utils import proto_utils

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.component import ShardedExampleGen
from penstock.components.example_gen.driver import ContentDriver, node_inputs

pytestmark = pytest.mark.slow


def resolve(base, *patterns, span=None):
    """Span, version, digest and input patterns, as found by the node's driver."""
    splits = [{"name": f"s{i}", "pattern": pattern} for i, pattern in enumerate(patterns)]
    fixed = range_config_pb2.StaticRange(start_span_number=span or 0, end_span_number=span or 0)
    node = ShardedExampleGen(
        base,
        input_config=example_gen_pb2.Input(splits=splits),
        range_config=None if span is None else range_config_pb2.RangeConfig(static_range=fixed),
    )
    properties = {key: value for key, value in node.exec_properties.items() if value is not None}
    properties = {
        key: value if isinstance(value, (str, int)) else proto_utils.proto_to_json(value)
        for key, value in properties.items()
    }
    info = data_types.PipelineInfo("", "")
    driver = ContentDriver(metadata_handle=None)
    found = driver.resolve_exec_properties(properties, info, data_types.ComponentInfo("", "", info))
    return (
        found[utils.SPAN_PROPERTY_NAME],
        found[utils.VERSION_PROPERTY_NAME],
        found[utils.FINGERPRINT_PROPERTY_NAME],
        [one.data for one in node_inputs(found)],
    )


@pytest.fixture
def put(s3):
    def put(*names):
        for name in names:
            s3.put_object(Bucket="bucket", Key=name, Body=f"name\n{name}\n".encode())

    return put


def test_the_newest_day_is_taken(put):
    put("d/2026-11-20/a.csv", "d/2026-11-22/a.csv", "d/2026-11-22/b.csv", "d/2025-12-31/a.csv")
    day, version, digest, [read] = resolve("s3://bucket/d", "{YYYY}-{MM}-{DD}/*.csv")
    assert (day, version) == (20779, None)  # days from 1970-01-01 to 2026-11-22
    assert read == "s3://bucket/d/2026-11-22/*.csv"
    assert resolve("s3://bucket/d", "{YYYY}-{MM}-{DD}/*.csv")[2] == digest
    put("d/2026-11-23/a.csv")
    later = resolve("s3://bucket/d", "{YYYY}-{MM}-{DD}/*.csv")
    assert later[0] == day + 1
    assert later[2] != digest


def test_a_folder_is_a_span_and_its_newest_version_is_taken(put):
    put("d/span-2/v09/a.csv", "d/span-10/v01/a.csv", "d/span-10/v02/a.csv", "d/other/v1/a.csv")
    span, version, _, [read] = resolve("s3://bucket/d", "span-{SPAN}/v{VERSION:2}")
    assert (span, version, read) == (10, 2, "s3://bucket/d/span-10/v02")
    span, version, _, [read] = resolve("s3://bucket/d", "span-{SPAN}/v{VERSION:2}", span=2)
    assert (span, version, read) == (2, 9, "s3://bucket/d/span-2/v09")
    put("d/span-10/v3/a.csv")
    expected = r"^s3://bucket/d/span-10/v3: not named as span-\{SPAN\}/v\{VERSION:2\} says"
    with pytest.raises(DataError, match=expected):
        resolve("s3://bucket/d", "span-{SPAN}/v{VERSION:2}")


def test_splits_have_the_same_span(put):
    put("d/1/train.csv", "d/1/eval.csv", "d/2/train.csv")
    with pytest.raises(DataError, match=r"s3://bucket/d: the splits have different newest spans o"):
        resolve("s3://bucket/d", "{SPAN}/train.csv", "{SPAN}/eval.csv")
    put("d/2/eval.csv")
    assert resolve("s3://bucket/d", "{SPAN}/train.csv", "{SPAN}/eval.csv")[:2] == (2, None)


def test_what_has_none_is_refused(put):
    put("d/a.csv")
    with pytest.raises(DataError, match=r"^s3://bucket/d/\{SPAN\}/a.csv: no span is there$"):
        resolve("s3://bucket/d", "{SPAN}/a.csv")
    with pytest.raises(
        UsageError, match=r"^https://h/d: spans are found on paths and at s3 and gs a"
    ):
        resolve("https://h/d", "{SPAN}/a.csv")
