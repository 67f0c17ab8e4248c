"""Checks that no node of a run loses rows, before its outputs are published.

Input: the input and output artifacts of a node after its executor has ended. Output: the row counts
by split, as a custom property of each output that has rows, and a manifest for Examples that have
no manifest. If a node wrote more or fewer rows than it read, without a stated reason, the check
raises a DataError. The counts come from the artifacts, so the check also covers stock TFX nodes:
for Examples from the manifest or by counting the records, for statistics from `num_examples`, for a
training from the number of rows in its training files, for an evaluation from its example count.
"""

import json
import os
import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from tfx.dsl.io import fileio

from penstock.components.errors import DataError
from penstock.components.evaluator.evaluation import HELD_OUT, Evaluation
from penstock.components.files.content import HashingStream, open_data
from penstock.components.tfrecord.compression import CHUNK_BYTES
from penstock.components.tfrecord.manifest import (
    COUNTED,
    MANIFEST_NAME,
    MANIFEST_PROPERTY,
    Manifest,
    Shard,
    digest_of,
)
from penstock.components.tfrecord.records import RecordReader
from penstock.components.tfrecord.sharding import split_of
from penstock.components.tfrecord.unlisted import NO_SHARDS
from penstock.components.trainer.record import RECORD_NAME, read_training_record
from penstock.pipelines.runs.ledger import ROWS_PROPERTY, NodeRows

# Name of a custom property of an output, or of a key in `custom_config`; its value says why the
# node wrote more or fewer rows than it read.
REASON_NAME = "rows_differ"

_UNNAMED = ""  # key of a row count that names no split, such as an evaluation's
_STATISTICS_NAME = "FeatureStats.pb"

ByName = Mapping[str, int]


def run_and_hold_rows(run: Callable[[Any], Any], info: Any) -> Any:
    """Runs an executor on TFX's `ExecutionInfo`, checks the row counts, and returns its output."""
    own = os.getpid()
    try:
        output = run(info)
    except SystemExit as error:  # TFX does not record this as a failure
        raise DataError(
            f"the code of the node called sys.exit({error.code!r}), which would end the run "
            "before its outputs are recorded; let the function return instead"
        ) from error
    finally:
        if os.getpid() != own:
            os._exit(1)  # a process that the node's code has forked must not continue the run
    if not output.execution_result.code:
        hold_rows(info, output)
    return output


def hold_rows(info: Any, output: Any) -> None:
    """Compares the row counts of a node's outputs and input Examples, and stores them.

    `info` is TFX's `ExecutionInfo`; `output` is the `ExecutorOutput`, whose artifacts TFX
    publishes.
    """
    types_of = {key: made[0].type_name for key, made in info.output_dict.items() if made}
    counted = {key: _COUNTS[name] for key, name in types_of.items() if name in _COUNTS}
    given = [a for several in info.input_dict.values() for a in several if a.type_name == _EXAMPLES]
    read = _added(_example_rows(artifact.uri) for artifact in given) if counted else {}
    for key, count in counted.items():
        changed = output.output_artifacts[key].artifacts if key in output.output_artifacts else ()
        artifacts = list(changed) or [artifact.mlmd_artifact for artifact in info.output_dict[key]]
        if types_of[key] == _EXAMPLES:
            for artifact in artifacts:
                _give_manifest(artifact)
        written = _added(count.rows(artifact.uri) for artifact in artifacts)
        expected = count.expected(read, info.exec_properties) if given else {}
        expected |= {split: rows for split, rows in read.items() if split in written}
        if written or (types_of[key] == _GRAPH and len(counted) > 1):
            rows = _compared(expected, written, info.exec_properties, artifacts)
        else:
            rows = NodeRows(expected, {}, dict.fromkeys(expected, f"not counted: {count.if_none}"))
        for artifact in artifacts:
            artifact.custom_properties[ROWS_PROPERTY].string_value = json.dumps(asdict(rows))


def _added(counts: Iterable[ByName]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def _compared(
    read: ByName, written: ByName, options: Mapping[str, Any], artifacts: Sequence[Any]
) -> NodeRows:
    if not read or not written:
        return NodeRows(read, written)
    if _UNNAMED in written:
        [split] = read.keys() - written
        written = {split: written[_UNNAMED], **{n: r for n, r in written.items() if n}}
    different = [split for split, rows in read.items() if written.get(split, 0) != rows]
    reasons = {split: _reason(split, options, artifacts) for split in different}
    if unexplained := [split for split, reason in reasons.items() if not reason]:
        split = unexplained[0]
        raise DataError(
            f"split {split!r}: {written.get(split, 0):,} rows came out of {read[split]:,} that "
            "went in, and nothing says why; run it again. If the node leaves rows out on purpose, "
            f"set the custom property {REASON_NAME!r} of its output, or of its custom_config, "
            "to the reason"
        )
    return NodeRows(read, written, reasons)


def _reason(split: str, options: Mapping[str, Any], artifacts: Sequence[Any]) -> str:
    """Returns why a node wrote more or fewer rows than it read; empty if there is no reason."""
    properties = [artifact.custom_properties for artifact in artifacts]
    stated = [one[REASON_NAME].string_value for one in properties if REASON_NAME in one]
    stated.append(_option(options, "custom_config", REASON_NAME))
    if any(stated):
        return str(next(filter(None, stated)))
    if split in (_json(options, "exclude_splits") or ()):
        return "excluded"
    rates = (
        _option(options, "sample_rate_by_split", split),
        _option(options, "stats_options_json", "_sample_rate"),
    )
    if below_1 := [rate for rate in rates if rate is not None and rate < 1]:
        return f"a sample of {below_1[0]:g}"
    asked = ("splits_config", "transform"), ("options", "splits"), ("data_spec", "example_splits")
    known = (_option(options, *place) for place in asked)
    return "not asked for" if any(some and split not in some for some in known) else ""


def _option(options: Mapping[str, Any], name: str, key: str) -> Any:
    value = _json(options, name)
    return value.get(key) if isinstance(value, Mapping) else None


def _json(options: Mapping[str, Any], name: str) -> Any:
    try:
        return json.loads(options.get(name) or "null")
    except (TypeError, ValueError):
        return None


class _Count(NamedTuple):
    """How to count an artifact's rows: `rows` takes its URI and returns the number by split.

    Attributes:
        if_none: Reason in the ledger if the rows cannot be counted.
        option: Option that lists the splits the node reads; empty if it reads all.
        split: The split that the node reads if the option is not set; empty if it reads all.
    """

    rows: Callable[[str], dict[str, int]]
    if_none: str
    option: str = ""
    split: str = ""

    def expected(self, read: ByName, options: Mapping[str, Any]) -> dict[str, int]:
        """Returns the number of rows, by split, that the output should have."""
        if not self.option:
            return dict(read)
        named = _json(options, self.option) or [self.split]
        splits = named.get("splits", [self.split]) if isinstance(named, dict) else named
        return {"+".join(splits): sum(read.get(split, 0) for split in splits)}


def _example_rows(uri: str) -> dict[str, int]:
    manifest = listed_manifest(uri) or _counted(uri)
    if manifest is None:
        return {}
    return {split: sum(s.rows for s in shards) for split, shards in manifest.splits.items()}


def _statistics_rows(uri: str) -> dict[str, int]:
    from tensorflow_metadata.proto.v0 import statistics_pb2

    rows = {}
    for split, folder in _split_folders(uri).items():
        path = posixpath.join(uri, folder, _STATISTICS_NAME)
        if not fileio.exists(path):
            return {}  # sharded statistics, which no node of Penstock writes
        with fileio.open(path, "rb") as file:
            found = statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read())
        rows[split] = int(found.datasets[0].num_examples)
    return rows


def _pass_rows(uri: str) -> dict[str, int]:
    if not fileio.exists(posixpath.join(uri, RECORD_NAME)):
        return {}
    rows = read_training_record(uri).input_rows
    return {_UNNAMED: rows} if rows is not None else {}


def _evaluated_rows(uri: str) -> dict[str, int]:
    try:
        found = Evaluation.read(uri)
    except DataError:  # not written by TFMA
        return {}
    apart = {HELD_OUT: found.held_out.rows} if found.held_out else {}
    return {} if found.rows is None else {_UNNAMED: found.rows, **apart}


_EXAMPLES, _GRAPH = "Examples", "TransformGraph"
_COUNTS = {
    _EXAMPLES: _Count(_example_rows, "its files are Parquet"),
    "ExampleStatistics": _Count(_statistics_rows, "its statistics are in shards"),
    _GRAPH: _Count(lambda uri: {}, "it wrote no rows"),
    "ModelRun": _Count(
        _pass_rows,
        "its loop is not `train`'s, which records the rows of a pass",
        "train_args",
        "train",
    ),
    "ModelEvaluation": _Count(
        _evaluated_rows,
        "it has no unweighted example count of all rows",
        "example_splits",
        "eval",
    ),
}


def _give_manifest(artifact: Any) -> None:
    if listed_manifest(artifact.uri) is not None:
        return
    manifest = _counted(artifact.uri)
    if manifest is None or not manifest.shards:
        return
    with fileio.open(posixpath.join(artifact.uri, MANIFEST_NAME), "w") as file:
        file.write(manifest.to_json())
    artifact.custom_properties[MANIFEST_PROPERTY].string_value = manifest.sha256


def listed_manifest(uri: str) -> Manifest | None:
    """Returns the manifest in an artifact's folder; None without one."""
    path = posixpath.join(uri, MANIFEST_NAME)
    if not fileio.exists(path):
        return None
    with fileio.open(path) as file:
        return Manifest.from_json(file.read(), path)


def _counted(uri: str) -> Manifest | None:
    splits = _split_folders(uri)
    if any(name.endswith(".parquet") for f in splits.values() for name in _shard_files(uri, f)):
        return None
    listed = {
        split: tuple(_shard(uri, file) for file in _shard_files(uri, folder))
        for split, folder in splits.items()
    }
    shards = [shard for found in listed.values() for shard in found]
    return Manifest.of(
        listed,
        (),
        read=sum(shard.rows for shard in shards),
        source_kind=COUNTED,
        source_fingerprint=digest_of(shards),
        source_files=len(shards),
        compression="GZIP" if shards and all(s.file.endswith(".gz") for s in shards) else "",
    )


def _split_folders(uri: str) -> dict[str, str]:
    if not fileio.isdir(uri):
        return {}
    folders = sorted(name.rstrip("/") for name in fileio.listdir(uri))
    return {split: folder for folder in folders if (split := split_of(folder)) is not None}


def _shard_files(uri: str, folder: str) -> list[str]:
    names = sorted(fileio.listdir(posixpath.join(uri, folder)))
    return [posixpath.join(folder, name) for name in names if not name.startswith(NO_SHARDS)]


def _shard(uri: str, name: str) -> Shard:
    path = posixpath.join(uri, name)
    with open_data(path) as file:
        hashed = HashingStream(file)
        rows = RecordReader(hashed, path).count()
        while hashed.read(CHUNK_BYTES):
            pass
        content = hashed.content()
    return Shard(name, rows, content.size, content.digest.hex())
