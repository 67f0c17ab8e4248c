"""Checks that no node of a run loses rows, before its outputs are published.

In: the input and output artifacts of a node after its executor has ended. Out: the row counts by
split as a custom property of each output that has rows, and a manifest for Examples that have none;
or a DataError if rows are missing without a stated reason. Rows are counted in the artifacts:
Examples by their manifest or record by record, statistics by `num_examples`, a training pass by the
rows that the training read, an evaluation by its example count. So the check covers stock TFX nodes
too.
"""

import hashlib
import json
import math
import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from tfx import types
from tfx.dsl.io import fileio

from penstock.components.errors import DataError
from penstock.components.evaluator.evaluation import Evaluation
from penstock.components.files.content import HashingStream, open_data
from penstock.components.tfrecord.compression import CHUNK_BYTES
from penstock.components.tfrecord.manifest import (
    COUNTED,
    MANIFEST_NAME,
    MANIFEST_PROPERTY,
    Manifest,
    RowAccount,
    Shard,
    schema_sha256,
)
from penstock.components.tfrecord.records import RecordReader
from penstock.components.tfrecord.sharding import split_of
from penstock.components.tfrecord.unlisted import NO_SHARDS
from penstock.components.trainer.record import RECORD_NAME, read_training_record
from penstock.pipelines.runs.ledger import ROWS_PROPERTY, NodeRows

# Name of a custom property of an output, or of a key in `custom_config`; its value says why the
# node wrote other rows than it read.
REASON_NAME = "rows_differ"

_COUNTING_THREADS = 4
_STATISTICS_NAME = "FeatureStats.pb"

ByName = Mapping[str, int]


def run_and_hold_rows(run: Callable[[Any], Any], info: Any) -> Any:
    """Runs an executor on TFX's `ExecutionInfo`, then checks the rows; returns its output."""
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
            os._exit(1)  # a fork left by the node's code must not continue the run
    if not output.execution_result.code:
        hold_rows(info, output)
    return output


def hold_rows(info: Any, output: Any) -> None:
    """Stores the row counts of a node's outputs, after comparing them with its input Examples.

    `info` is TFX's `ExecutionInfo`; `output` is the `ExecutorOutput`, whose artifacts TFX
    publishes.
    """
    types_of = {key: made[0].type_name for key, made in info.output_dict.items() if made}
    counted = {key: name for key, name in types_of.items() if name in _COUNTS}
    if not counted:
        return
    given = [a for several in info.input_dict.values() for a in several if _has_rows(a)]
    read = _added([_example_rows(artifact.uri) for artifact in given])
    for key, type_name in counted.items():
        skeleton = info.output_dict[key]
        changed = output.output_artifacts[key].artifacts if key in output.output_artifacts else ()
        artifacts = list(changed) or [artifact.mlmd_artifact for artifact in skeleton]
        if type_name == _EXAMPLES:
            for artifact in artifacts:
                _give_manifest(artifact)
        count, scope, uncounted = _COUNTS[type_name]
        written = _added([count(artifact.uri) for artifact in artifacts])
        expected = scope(read, info.exec_properties) if given else {}
        if written or (type_name == _GRAPH and len(counted) > 1):
            rows = _compared(expected, written, _Reasons(info.exec_properties, artifacts))
        else:
            rows = NodeRows(expected, {}, dict.fromkeys(expected, f"not counted: {uncounted}"))
        for artifact in artifacts:
            artifact.custom_properties[ROWS_PROPERTY].string_value = json.dumps(asdict(rows))


def states_rows(artifact: types.Artifact) -> bool:
    """Returns False for an artifact of a type with rows whose row counts are not stored."""
    return artifact.type_name not in _COUNTS or artifact.has_custom_property(ROWS_PROPERTY)


def _has_rows(artifact: types.Artifact) -> bool:
    return artifact.type_name == _EXAMPLES


def _added(counts: Sequence[ByName]) -> dict[str, int]:
    total: dict[str, int] = {}
    for count in counts:
        for split, rows in count.items():
            total[split] = total.get(split, 0) + rows
    return total


def _compared(read: ByName, written: ByName, reasons: "_Reasons") -> NodeRows:
    if not read or not written:
        return NodeRows(read, written)
    if len(read) == len(written) == 1:  # the count of an evaluation names no split
        written = dict(zip(read, written.values(), strict=True))
    found = {}
    for split, rows in read.items():
        made = written.get(split, 0)
        if made == rows:
            continue
        found[split] = reasons.of(split, rows, made)
        if not found[split]:
            raise DataError(
                f"split {split!r}: {made:,} rows came out of {rows:,} that went "
                "in, and nothing says why; run it again. If the node leaves rows out on purpose, "
                f"set the custom property {REASON_NAME!r} of its output, or of its custom_config, "
                "to the reason"
            )
    return NodeRows(read, written, found)


class _Reasons:
    """Reasons in a node's options and outputs why it wrote other rows than it read."""

    def __init__(self, options: Mapping[str, Any], artifacts: Sequence[Any]) -> None:
        self._options = options
        self._artifacts = artifacts

    def of(self, split: str, read: int, written: int) -> str:
        """Returns why the rows of a split differ; empty if nothing gives a reason."""
        stated = [a.custom_properties[REASON_NAME].string_value for a in self._artifacts
                  if REASON_NAME in a.custom_properties]  # fmt: skip
        stated.append(str(self._mapping("custom_config").get(REASON_NAME, "")))
        if any(stated):
            return next(filter(None, stated))
        if split in self._json("exclude_splits"):
            return "excluded"
        rate = self._mapping("sample_rate_by_split").get(
            split, self._mapping("stats_options_json").get("_sample_rate")
        )
        if rate is not None and rate < 1 and _may_be_sample(read, written, rate):
            return f"a sample of {rate:g}"
        transformed = self._mapping("splits_config").get("transform")
        packed = self._mapping("options").get("splits")
        inferred = self._mapping("data_spec").get("example_splits")
        if any(known and split not in known for known in (transformed, packed, inferred)):
            return "not asked for"
        return ""

    def _mapping(self, name: str) -> Mapping[str, Any]:
        value = self._json(name)
        return value if isinstance(value, Mapping) else {}

    def _json(self, name: str) -> Any:
        try:
            return json.loads(self._options.get(name) or "{}") or {}
        except (TypeError, ValueError):
            return {}


def _may_be_sample(read: int, written: int, rate: float) -> bool:
    """Returns whether `written` may be a sample of `read`.

    TFDV samples whole batches, so the count may be six standard deviations away.
    """
    spread = 6 * math.sqrt(rate * (1 - rate) * read * _SAMPLED_AT_ONCE) + _SAMPLED_AT_ONCE
    return written <= read and abs(written - rate * read) <= spread


def _splits_of(option: str, default: str) -> Callable[[ByName, Mapping[str, Any]], dict[str, int]]:

    def scope(read: ByName, options: Mapping[str, Any]) -> dict[str, int]:
        named = json.loads(options.get(option) or "null") or [default]
        splits = named.get("splits", [default]) if isinstance(named, dict) else named
        return {"+".join(splits): sum(read.get(split, 0) for split in splits)}

    return scope


def _all_of(read: ByName, options: Mapping[str, Any]) -> ByName:
    del options
    return read


def _example_rows(uri: str) -> dict[str, int]:
    manifest = _listed(uri) or _counted(uri)
    if manifest is None:
        return {}
    return {split: sum(s.rows for s in shards) for split, shards in manifest.splits.items()}


def _statistics_rows(uri: str) -> dict[str, int]:
    from tensorflow_metadata.proto.v0 import statistics_pb2

    rows = {}
    for split, folder in _split_folders(uri).items():
        path = posixpath.join(uri, folder, _STATISTICS_NAME)
        if not fileio.exists(path):
            return {}  # sharded statistics: no node here writes them
        with fileio.open(path, "rb") as file:
            found = statistics_pb2.DatasetFeatureStatisticsList.FromString(file.read())
        rows[split] = int(found.datasets[0].num_examples)
    return rows


def _pass_rows(uri: str) -> dict[str, int]:
    if not fileio.exists(posixpath.join(uri, RECORD_NAME)):
        return {}
    rows = read_training_record(uri).input_rows
    return {"": rows} if rows is not None else {}


def _evaluated_rows(uri: str) -> dict[str, int]:
    try:
        rows = Evaluation.read(uri).rows
    except DataError:  # of another writer than TFMA
        return {}
    return {} if rows is None else {"": rows}


_EXAMPLES = "Examples"
_SAMPLED_AT_ONCE = 1000  # most rows of a batch, in TFX and in `BatchStatisticsGen`
_GRAPH = "TransformGraph"
# By artifact type: function that counts its rows, function that returns the expected rows, and the
# reason in the ledger if the rows cannot be counted.
_COUNTS: dict[str, tuple[Callable[[str], dict[str, int]], Callable[..., ByName], str]] = {
    _EXAMPLES: (_example_rows, _all_of, "its files are Parquet"),
    "ExampleStatistics": (_statistics_rows, _all_of, "its statistics are in shards"),
    _GRAPH: (lambda uri: {}, _all_of, "it wrote no rows"),
    "ModelRun": (
        _pass_rows,
        _splits_of("train_args", "train"),
        "its loop is not `train`'s, which records the rows of a pass",
    ),
    "ModelEvaluation": (
        _evaluated_rows,
        _splits_of("example_splits", "eval"),
        "it has no unweighted example count of all rows",
    ),
}


def _give_manifest(artifact: Any) -> None:
    if _listed(artifact.uri) is not None:
        return
    manifest = _counted(artifact.uri)
    if manifest is None or not manifest.shards:
        return
    with fileio.open(posixpath.join(artifact.uri, MANIFEST_NAME), "w") as file:
        file.write(manifest.to_json())
    artifact.custom_properties[MANIFEST_PROPERTY].string_value = manifest.sha256


def _listed(uri: str) -> Manifest | None:
    path = posixpath.join(uri, MANIFEST_NAME)
    if not fileio.exists(path):
        return None
    with fileio.open(path) as file:
        return Manifest.from_json(file.read(), path)


def _counted(uri: str) -> Manifest | None:
    splits = _split_folders(uri)
    if any(name.endswith(".parquet") for f in splits.values() for name in _shard_files(uri, f)):
        return None
    with ThreadPoolExecutor(_COUNTING_THREADS) as pool:
        listed = {
            split: tuple(pool.map(lambda file: _shard(uri, file), _shard_files(uri, folder)))
            for split, folder in splits.items()
        }
    shards = [shard for found in listed.values() for shard in found]
    rows = {split: sum(shard.rows for shard in found) for split, found in listed.items()}
    digests = "".join(shard.sha256 for shard in shards)
    return Manifest(
        splits=listed,
        columns=(),
        schema_sha256=schema_sha256(()),
        source_kind=COUNTED,
        source_fingerprint=hashlib.sha256(digests.encode()).hexdigest(),
        source_files=len(shards),
        account=RowAccount(read=sum(rows.values()), written=rows),
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
