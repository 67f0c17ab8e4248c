"""Tables of `penstock inspect`, `ingest` and `pack`."""

from rich.console import Console

from penstock.components.doctor.inspect import MAX_DISTINCT, FeatureSummary, InspectReport
from penstock.components.errors import DataError, counted
from penstock.components.packing.layout import EMPTY_COLUMNS, PackedLayout
from penstock.components.tfrecord.manifest import MANIFEST_NAME, Manifest
from penstock.pipelines.terminal.tables import (
    as_html,
    console,
    human_bytes,
    print_table,
    short_path,
    short_paths,
)

# Maximum numbers of files and of packed columns that are shown, so that they fit on a screen;
# --json has all of them.
_MAX_FILES, _MAX_COLUMNS = 20, 40
_FILE_COLUMNS = ("file", "size", "compression", "records")
_PACKED_COLUMNS = ("column", "kind", "stored as", "shape", "Arrow type", "filled")
_FEATURE_COLUMNS = (
    "feature",
    "kind",
    "values",
    "present",
    "range",
    "mean",
    "distinct",
    "samples",
)


class Inspection(InspectReport):
    """Report of `inspect`; a notebook shows it as the tables that the command prints."""

    def _repr_html_(self) -> str:
        return as_html(lambda out: show_inspection(self, out))


def show_inspection(report: InspectReport, out: Console | None = None) -> None:
    out = out or console()
    print_table(out, _headline(report), _FILE_COLUMNS, _files(report))
    if len(report.files) > _MAX_FILES:
        out.print(f"  and {len(report.files) - _MAX_FILES} more files")
    if report.skipped:
        out.print(f"passed over: {short_paths(report.skipped[:_MAX_FILES], report.path)}")
    for folder, manifest in report.manifests.items():
        try:
            _show_manifest(out, folder, manifest)
        except DataError as error:  # packed records with the layout of another version
            out.print(str(error))
    if report.features:
        rows = [_feature(feature) for feature in report.features]
        print_table(out, f"\n{_features_title(report)}", _FEATURE_COLUMNS, rows)
    if report.packed_rows and report.path not in report.manifests:  # else printed by _show_manifest
        blocks = counted(report.payloads["packed"], "packed block")
        out.print(f"\n{counted(report.packed_rows, 'row')} in {blocks}")
    if others := report.payloads.get("other"):
        out.print(f"\n{counted(others, 'payload')} of another kind than tf.train.Example")


def _show_manifest(out: Console, folder: str, manifest: Manifest) -> None:
    account, files = manifest.account, counted(manifest.source_files, "file")
    show_splits(out, f"\n{folder}/{MANIFEST_NAME}", manifest)
    out.print(
        f"{sum(account.written.values()):,} rows, {account.quarantined:,} quarantined, from "
        f"{manifest.source_kind}, {files} of digest {manifest.source_fingerprint}"
    )
    if manifest.packed is not None:
        layout = PackedLayout.from_dict(manifest.packed, folder)
        out.print(f"packed in blocks of {layout.block_rows:,} rows, shuffled by seed {layout.seed}")
        show_columns(out, manifest, folder)


def show_splits(out: Console, title: str, manifest: Manifest) -> None:
    rows = [
        (
            name,
            f"{sum(shard.rows for shard in shards):,}",
            str(len(shards)),
            human_bytes(sum(shard.bytes for shard in shards)),
        )
        for name, shards in manifest.splits.items()
    ]
    print_table(out, title, ("split", "rows", "shards", "size"), rows)


def show_columns(out: Console, manifest: Manifest, output: str) -> None:
    """Prints how packed columns are stored, and in how many rows a missing value was filled."""
    layout = PackedLayout.from_dict(manifest.packed or {}, output)
    columns = [
        (
            column.name,
            column.kind,
            column.storage,
            "x".join(map(str, column.shape)) or "any",
            str(column.type),
            f"{column.filled:,}" if column.filled else "",
        )
        for column in layout.columns
    ]
    print_table(out, "", _PACKED_COLUMNS, columns[:_MAX_COLUMNS])
    if len(columns) > _MAX_COLUMNS:
        out.print(f"  and {counted(len(columns) - _MAX_COLUMNS, 'more column')}")
    if filled := sum(column.filled > 0 for column in layout.columns):
        out.print(
            f"{counted(filled, 'column')} had rows without a value, which have 0, 0.0 or the "
            "empty text now; --on-missing list keeps the difference"
        )
    if empty := (manifest.packed or {}).get(EMPTY_COLUMNS):
        out.print(
            f"left out, as no row has a value: {', '.join(empty)}; a --schema that has a column "
            "keeps it"
        )


def _headline(report: InspectReport) -> str:
    size = human_bytes(sum(file.bytes for file in report.files))
    how = "counted" if report.is_exact else "about, from a part of each file"
    if report.faults:
        how = "in files with faults"
    files, records = counted(len(report.files), "file"), counted(report.records, "record")
    return f"{report.path}: {files}, {size}, {records} ({how})"


def _files(report: InspectReport) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for file in report.files[:_MAX_FILES]:
        how = " damaged" if file.faults else "" if file.is_exact else " about"
        place, size = short_path(file.file, report.path), human_bytes(file.bytes)
        rows.append((place, size, file.compression or "none", f"{file.records:,}{how}"))
    return rows


def _features_title(report: InspectReport) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(report.payloads.items()))
    whole = report.is_exact and report.records_looked_at == report.records
    first = "the first" if len(report.files) == 1 else "the first of each file:"
    part = "all" if whole else first
    return f"features, over {part} {counted(report.records_looked_at, 'record')} ({kinds})"


def _feature(feature: FeatureSummary) -> tuple[str, ...]:
    prefix = "" if feature.place == "features" else f"{feature.place}/"
    contents = ", ".join(f"{count:,} {what}" for what, count in feature.contents.items())
    return (
        prefix + feature.name,
        feature.kind or "never set",
        _values(feature),
        f"{feature.present / feature.records:.1%}" if feature.records else "",
        _range(feature),
        "" if feature.mean is None else f"{feature.mean:.6g}",
        _distinct(feature),
        "; ".join([*([contents] if contents else []), *feature.samples]),
    )


def _values(feature: FeatureSummary) -> str:
    values = _span(feature.min_values or 0, feature.max_values or 0)
    if feature.min_steps is None or feature.max_steps is None:
        return values
    return f"{values} x {_span(feature.min_steps, feature.max_steps)} steps"


def _range(feature: FeatureSummary) -> str:
    parts = []
    if feature.minimum is not None and feature.maximum is not None:
        parts.append(f"{_number(feature.minimum)} to {_number(feature.maximum)}")
    if feature.min_bytes is not None and feature.max_bytes is not None:
        parts.append(f"{_span(feature.min_bytes, feature.max_bytes)} bytes")
    if feature.non_finite:
        parts.append(f"{feature.non_finite:,} NaN or inf")
    return ", ".join(parts)


def _distinct(feature: FeatureSummary) -> str:
    if feature.distinct is None:
        return ""
    return f"{feature.distinct:,}" + ("+" if feature.distinct >= MAX_DISTINCT else "")


def _number(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:.6g}"


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"
