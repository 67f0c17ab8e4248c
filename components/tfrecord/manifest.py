"""The manifest of a set of shards: the files, their source, and the row counts.

`manifest.json` is written last, beside the `Split-*/` folders; its presence commits the output.
`read_manifest` refuses a folder without a manifest, whatever files it contains.
"""

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from json import JSONEncoder
from pathlib import Path
from typing import Any

from penstock.components.errors import DataError
from penstock.components.plain import from_record
from penstock.components.tfrecord.recovery import recover
from penstock.components.tfrecord.sharding import COMPRESSIONS

MANIFEST_NAME = "manifest.json"
# File beside the manifest in which `checked.py` caches the digests of shards.
DIGESTS_NAME = ".digests.json"
MANIFEST_VERSION = 1
# Patterns of files that belong to an output although the manifest does not list them by name.
_REJECTED_ROWS = r"/rejected-\d{5,}\.jsonl"
_PARQUET_COPY = r"/[^/]+/data-\d{5,}-of-\d{5,}\.parquet"
# Name of a temporary file that a killed process left in an output; the second group is the final
# name.
_TEMPORARY = re.compile(r"(.*/)?\.([^/]+)\.[0-9a-f]{32}")
# Custom property of a TFX artifact: the digest of its manifest. Artifacts without a manifest are
# allowed, so only this property reveals that a manifest was removed.
MANIFEST_PROPERTY = "manifest_sha256"
# Source kind of a manifest that was made by counting rows in another writer's shards.
COUNTED = "counted"


@dataclass(frozen=True, slots=True)
class Shard:
    """One TFRecord file: path relative to the manifest, rows, bytes and sha256 (hex)."""

    file: str
    rows: int
    bytes: int
    sha256: str


# Default maximum share of rejected rows, in `IngestOptions` and `GateOptions`.
MAX_QUARANTINED_SHARE = 0.01


@dataclass(frozen=True)
class RowAccount:
    """Counts of all rows that were read, including blank ones.

    Raises:
        ValueError: `read` is not the sum of the other counts.
    """

    read: int
    written: Mapping[str, int]
    quarantined: int = 0
    blank: int = 0

    def __post_init__(self) -> None:
        total = sum(self.written.values()) + self.quarantined + self.blank
        if self.read != total:
            raise ValueError(
                f"rows do not add up: read {self.read}, but written {dict(self.written)} "
                f"+ quarantined {self.quarantined} + blank {self.blank} = {total}"
            )

    @property
    def quarantined_share(self) -> float:
        """Share of quarantined rows among all rows that are not blank."""
        return self.quarantined / max(1, self.read - self.blank)


@dataclass(frozen=True)
class ManifestColumn:
    """Name and kind (INT, FLOAT, BYTES) of a feature, and whether its values are lists."""

    name: str
    kind: str
    is_list: bool = False


@dataclass(frozen=True)
class Manifest:
    splits: Mapping[str, Sequence[Shard]]
    columns: Sequence[ManifestColumn]
    schema_sha256: str
    source_kind: str
    source_fingerprint: str  # digest of the source's content
    source_files: int
    account: RowAccount
    compression: str = ""
    plan: str = ""  # reason for the number of shards, in words
    # Folders of the rejected rows and of the Parquet copy, relative to the manifest
    quarantine: str | None = None
    parquet: str | None = None
    source_snapshot: str | None = None  # version of a table; written only if given
    # `PackedLayout.to_dict()` of packed shards; None if each record is one row
    packed: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.compression not in COMPRESSIONS:
            raise ValueError(f"'compression' is {self.compression!r}, expected '' or 'GZIP'")
        for shard in self.shards:
            if os.path.isabs(shard.file) or ".." in shard.file.split("/"):
                raise ValueError(f"shard {shard.file!r} is no path below its folder")

    @property
    def shards(self) -> list[Shard]:
        return [shard for shards in self.splits.values() for shard in shards]

    @classmethod
    def of(
        cls,
        splits: Mapping[str, Sequence[Shard]],
        columns: Sequence[ManifestColumn],
        *,
        read: int,
        quarantined: int = 0,
        blank: int = 0,
        **source: Any,
    ) -> "Manifest":
        """Returns the manifest of shards written from `read` rows.

        `source` sets fields of the manifest that have no argument here.

        Raises:
            ValueError: `read` is not the sum of written, quarantined and blank rows.
        """
        written = {split: sum(one.rows for one in shards) for split, shards in splits.items()}
        account = RowAccount(read, written, quarantined, blank)
        schema = json.dumps([asdict(one) for one in columns]).encode()
        digest = hashlib.sha256(schema).hexdigest()
        return cls(splits, columns, digest, account=account, **source)

    def foreign_files(self, names: Iterable[str]) -> list[str]:
        """Returns the `names` (relative to the manifest) that are not files of this output.

        Files of the output are the listed shards and vocabularies, the manifest, the cache of
        digests, rejected rows, the Parquet copy, and temporary files of these.
        """
        packed = (self.packed or {}).get("columns", ())
        listed = {MANIFEST_NAME, DIGESTS_NAME, *(shard.file for shard in self.shards)}
        listed |= {column["vocabulary"] for column in packed if column.get("vocabulary")}
        folders = ((self.quarantine, _REJECTED_ROWS), (self.parquet, _PARQUET_COPY))
        parts = [re.escape(folder) + rest for folder, rest in folders if folder is not None]
        numbered = re.compile("|".join(parts) or r"(?!)")

        def is_ours(name: str) -> bool:
            return name in listed or numbered.fullmatch(name) is not None

        return sorted(name for name in names if not is_ours(_TEMPORARY.sub(r"\1\2", name)))

    def to_json(self) -> str:
        """Returns the text of `manifest.json`; equal manifests give equal texts."""
        return "".join(self.json_parts())

    def json_parts(self) -> Iterator[str]:
        """Yields the text of `to_json` in parts; `to_json` takes 260 MiB for 100,000 shards."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.source_snapshot is None:
            del own["source_snapshot"]
        yield from JSONEncoder(indent=1, default=asdict).iterencode(
            {"version": MANIFEST_VERSION, **own}
        )
        yield "\n"

    @property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for part in self.json_parts():
            digest.update(part.encode())
        return digest.hexdigest()

    @classmethod
    def from_json(cls, text: str, path: str) -> "Manifest":
        """Parses the text of the manifest at `path`; raises DataError if it is invalid."""
        try:
            raw = json.loads(text)
            version = raw.pop("version")
        except (json.JSONDecodeError, KeyError, AttributeError, TypeError) as error:
            raise DataError(f"{path}: not a Penstock manifest ({error!r})") from error
        if version != MANIFEST_VERSION:
            raise DataError(
                f"{path}: manifest version {version}, this Penstock reads {MANIFEST_VERSION}; "
                "ingest again or upgrade"
            )
        try:
            return from_record(cls, raw)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: damaged manifest ({error})") from error


def digest_of(shards: Iterable[Shard]) -> str:
    """Returns a digest (hex) of the content of shards, in order."""
    return hashlib.sha256("".join(shard.sha256 for shard in shards).encode()).hexdigest()


def write_manifest(directory: str | os.PathLike[str], manifest: Manifest) -> None:
    """Writes `manifest.json` into a folder atomically: readers see all of it or nothing."""
    path = Path(directory) / MANIFEST_NAME
    temporary = path.with_name(f".{MANIFEST_NAME}.{uuid.uuid4().hex}")
    with temporary.open("w", encoding="utf-8") as file:
        file.writelines(manifest.json_parts())
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def read_manifest(directory: str | os.PathLike[str]) -> Manifest:
    """Reads the manifest of a folder of shards; raises DataError if it is missing or invalid."""
    path = Path(directory) / MANIFEST_NAME
    recover(path)
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() or not path.exists() else ""
    except (FileNotFoundError, NotADirectoryError) as error:
        lack = f"no {MANIFEST_NAME}; the shards were never finished or are not Penstock's"
        raise DataError(
            f"{directory}: {lack if path.parent.is_dir() else 'no such folder of shards'}"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a Penstock manifest ({error})") from error
    return Manifest.from_json(text, str(path))
