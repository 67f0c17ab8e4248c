"""Logs become rows: TensorFlow Serving's own protos, and the records of KServe's logger."""

import base64
import json
import math
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from row_files import example
from tensorflow_serving.apis import prediction_log_pb2

from penstock.components.errors import DataError
from penstock.components.sources.open import open_source
from penstock.components.sources.served.events import asked_rows
from penstock.components.sources.served.source import Requests
from penstock.components.sources.spread import Spread

ASKED = "org.kubeflow.serving.inference.request"
ANSWERED = "org.kubeflow.serving.inference.response"
MISSING_INT = -(2**63)


def rows_in(path, **options):
    """The rows of a log, each without its null values, and the notes of the source."""
    with Spread() as spread:
        source = open_source(str(path), Requests(**options), spread)
        batches = [one for pieces in source.cut(2) for one in source.read(pieces)]
    rows = [row for batch in batches for row in batch.table.to_pylist()]
    return [{k: v for k, v in row.items() if v is not None} for row in rows], source.notes


def event(kind, call, data, time="2026-06-01T12:00:00.5Z", **more):
    return {"specversion": "1.0", "type": kind, "id": call, "time": time, "data": data, **more}


def call(call_id, asked, answered, **more):
    return [event(ASKED, call_id, asked, **more), event(ANSWERED, call_id, answered, **more)]


def write_lines(path, events):
    path.write_text("\n".join(map(json.dumps, events)) + "\n")
    return path


def test_prediction_logs_of_tensorflow_serving(tmp_path):
    log = prediction_log_pb2.PredictionLog()
    log.log_metadata.timestamp_secs = 1_780_000_000
    log.log_metadata.model_spec.version.value = 3
    tensors = {
        "fare": tf.constant([2.5, float("nan")]),
        "pay": tf.constant(["cash", ""]),
        "hour": tf.constant([7, MISSING_INT], tf.int64),
        "tags": tf.constant([["a", "b"], ["c", ""]]),
    }
    for name, tensor in tensors.items():
        log.predict_log.request.inputs[name].CopyFrom(tf.make_tensor_proto(tensor))
    answers = {"probabilities": [[0.25, 0.75], [0.875, 0.125]], "label": [1, 0], "text": ["y", "n"]}
    for name, values in answers.items():
        log.predict_log.response.outputs[name].CopyFrom(tf.make_tensor_proto(tf.constant(values)))
    other = prediction_log_pb2.PredictionLog()
    other.regress_log.request.model_spec.name = "other"
    with tf.io.TFRecordWriter(str(tmp_path / "log"), "GZIP") as out:
        out.write(log.SerializeToString())
        out.write(other.SerializeToString())
    told = {"request_time": 1_780_000_000_000_000, "model_version": b"3"}
    assert rows_in(tmp_path / "log")[0] == [
        {"fare": 2.5, "hour": 7, "pay": b"cash", "tags": [b"a", b"b"], **told,
         "prediction": b"y", "probability": 0.75},
        {"tags": [b"c"], **told, "prediction": b"n", "probability": 0.875},
    ]  # fmt: skip


def test_serialized_examples_become_columns(tmp_path):
    examples = [example(fare=[2.5], hour=[7]), example(fare=[3.5], pay=[b"cash"])]
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.inputs["examples"].CopyFrom(tf.make_tensor_proto(examples))
    log.predict_log.response.outputs["score"].CopyFrom(tf.make_tensor_proto([[0.5], [0.25]]))
    with tf.io.TFRecordWriter(str(tmp_path / "log")) as out:
        out.write(log.SerializeToString())
    wanted = [
        {"fare": 2.5, "hour": 7, "prediction": 0.5},
        {"fare": 3.5, "pay": b"cash", "prediction": 0.25},
    ]
    assert rows_in(tmp_path / "log")[0] == wanted
    coded = [{"b64": base64.b64encode(one).decode()} for one in examples]
    for asked in ({"instances": coded}, {"instances": [{"examples": one} for one in coded]}):
        write_lines(tmp_path / "log", call("1", asked, {"predictions": [[0.5], [0.25]]}))
        rows = rows_in(tmp_path / "log")[0]
        assert [{k: v for k, v in row.items() if k in wanted[i]} for i, row in enumerate(rows)] == [
            {**one, "prediction": [one["prediction"]]} for one in wanted
        ]


V2 = {"name": "fare", "shape": [2], "datatype": "FP32", "data": [2.5, 3.5]}


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ({"instances": [{"fare": 2.5}, {"fare": 3.5}]}, {"predictions": [0.5, 0.25]}),
        ({"inputs": {"fare": [2.5, 3.5]}}, {"outputs": [0.5, 0.25]}),
        ({"inputs": {"fare": [2.5, 3.5]}}, {"outputs": {"value": [0.5, 0.25]}}),
        ({"inputs": [V2]}, {"outputs": [{**V2, "name": "value", "data": [0.5, 0.25]}]}),
    ],
)
def test_json_of_both_protocols(tmp_path, asked, answered):
    write_lines(tmp_path / "log", call("a", asked, {**answered, "model_version": 7}))
    told = {"request_id": b"a", "request_time": 1_780_315_200_500_000, "model_version": b"7"}
    assert rows_in(tmp_path / "log")[0] == [
        {"fare": 2.5, "prediction": 0.5, **told},
        {"fare": 3.5, "prediction": 0.25, **told},
    ]


def test_records_of_the_logger_in_json_and_parquet_in_folders(tmp_path):
    """The records have the form of KServe's `pkg/logger/types.go` and `marshaller_record.go`."""
    below = tmp_path / "logs" / "namespace" / "taxi"
    below.mkdir(parents=True)
    records = []
    for kind, body in ((ASKED, {"instances": [{"fare": 2.5}]}), (ANSWERED, {"predictions": [1.5]})):
        coded = base64.b64encode(json.dumps(body).encode()).decode()
        records.append({"bytes": coded, "reqType": kind, "id": "a", "endpoint": "default"})
    timed = [{**one, "occurrenceTime": "2026-06-01T12:00:00.500000001Z"} for one in records]
    for name, content in (("a-request.json", timed[0]), ("a-response.json", timed[1])):
        (below / name).write_text(json.dumps(content))
    row = {"fare": 2.5, "prediction": 1.5, "request_id": b"a"}
    assert rows_in(tmp_path / "logs")[0] == [{**row, "request_time": 1_780_315_200_500_000}]
    (tmp_path / "batch.json").write_text(json.dumps(timed))
    assert rows_in(tmp_path / "batch.json")[0] == rows_in(tmp_path / "logs")[0]
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "log.parquet")
    assert rows_in(tmp_path / "log.parquet")[0] == [row]


def test_failed_requests_are_left_out_and_counted(tmp_path):
    asked = {"instances": [{"fare": 2.5}]}
    done = call("a", asked, {"predictions": [1.5]})
    failed = [event(ASKED, "b", "{}"), event(ASKED, "d", "no JSON")]
    health = call("c", None, {"ready": True})
    write_lines(tmp_path / "log", [*failed, *done, *health])
    rows, notes = rows_in(tmp_path / "log")
    assert [row["request_id"] for row in rows] == [b"a"]
    assert notes == ("left out: 2 requests without a response, 1 response without a request",)
    # A logger may be set to log only requests; then no request counts as unanswered.
    write_lines(tmp_path / "log", done[:1])
    rows, notes = rows_in(tmp_path / "log")
    assert (len(rows), "prediction" in rows[0], notes) == (1, False, ())


def test_later_labels_join_by_a_key_and_rows_without_one_are_counted(tmp_path):
    asked = {"instances": [{"trip": 1, "fare": 2.5}, {"trip": 2, "fare": 3.5}]}
    write_lines(tmp_path / "log", call("a", asked, {"predictions": [0, 1]}))
    labels = tmp_path / "labels.csv"
    labels.write_text("trip,tips\n2,0.5\n9,1.5\n")
    options = {"labels_file": str(labels), "key": "trip"}
    rows, notes = rows_in(tmp_path / "log", **options)
    assert [(row["trip"], row.get("tips")) for row in rows] == [(1, None), (2, 0.5)]
    assert notes == (f"labels of {labels}: 1 of 2 rows have one, 1 none",)
    with Spread() as spread:
        first = open_source(str(tmp_path / "log"), Requests(**options), spread)
        labels.write_text("trip,tips\n1,0.5\n")
        other = open_source(str(tmp_path / "log"), Requests(**options), spread)
    assert first.fingerprint != other.fingerprint
    for text, reason in [
        ("id,tips\n1,2\n", "has no column 'trip', by which labels are joined"),
        ("trip,tips\n1,2\n1,3\n", "trip '1' has two labels"),
        ("trip,fare\n1,2\n", "column 'fare' is one of the requests too"),
        ("trip,tips\n1,2\n,3\n", "labels.csv: a row has no trip"),
    ]:
        labels.write_text(text)
        with pytest.raises(DataError, match=reason):
            rows_in(tmp_path / "log", **options)


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        (
            call("a", {"instances": [[1, 2]]}, {"predictions": [1]}),
            "rows: a row is '[1, 2]'",
        ),
        (call("a", {"instances": [{"a": 1}]}, {"predictions": []}), "0 predictions for 1 row"),
        (call("a", {"inputs": {"a": [1], "b": [1, 2]}}, {}), "different numbers of rows: a 1, b 2"),
        (call("a", {"instances": [{"prediction": 1}]}, {"predictions": [1]}), "reserved name"),
        ([event("other", "a", {})], "record 1 cannot be read (its type is 'other'"),
        ([event(ASKED, "a", {})] * 2, "two requests of id 'a'"),
        ([{"type": ASKED, "data": {}}], "record 1 cannot be read ('id')"),
        ([event(ASKED, "a", {}), 123], "record 2 cannot be read"),
        ([event(ASKED, "a", {}), [1, "a"]], "record 2 cannot be read"),
    ],
)
def test_unreadable_records_are_named(tmp_path, events, reason):
    write_lines(tmp_path / "log", events)
    with pytest.raises(DataError, match=re.escape(reason)):
        rows_in(tmp_path / "log")


def test_a_blank_column_name_is_refused_with_the_log(tmp_path):
    write_lines(tmp_path / "log", call("1", {"instances": [{" ": 1}]}, {"predictions": [0.5]}))
    with pytest.raises(DataError, match="log, joined rows: a column has a blank name"):
        rows_in(tmp_path / "log")


def test_another_file_is_refused(tmp_path):
    for content in (b"fare,pay\n1,2\n", b'{"fare": 1}\n', b"PAR1 and no more"):
        (tmp_path / "log").write_bytes(content)
        with pytest.raises(DataError, match="/log"):
            rows_in(tmp_path / "log")


def test_texts_that_parse_as_empty_messages_stay_texts():
    rows = asked_rows({"inputs": {"text": [b"x1", b"8a", b"cats"]}})
    assert rows == [{"text": b"x1"}, {"text": b"8a"}, {"text": b"cats"}]


def test_a_missing_item_keeps_its_place_in_a_list_and_bytes_stay_bytes():
    lists = [[1.0, math.nan, 2.0], [3.0, math.nan, math.nan]]
    rows = asked_rows({"inputs": {"a": lists, "b": [b"\xff", b"t"]}})
    assert rows == [{"a": [1.0, None, 2.0], "b": b"\xff"}, {"a": [3.0], "b": b"t"}]
