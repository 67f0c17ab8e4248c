"""Finds signs of leakage: a feature that gives a label away, or equal rows or ids in two splits.

Input: a sample of each split's rows. Output: the signs that were found, each with its figures. Each
feature is cut into bins: at quantiles if it is a number, otherwise one bin per value. On one half
of the first split's sample, each bin gets its mean label or, for classes, its most frequent label.
These values predict the labels of the other half.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.batches.shards import sample_split
from penstock.components.gates.options import GateOptions

# Target number of rows in the sample for the checks of labels. With a sample of this size,
# `find_leaks` takes less than a second for 100,000 rows of 50 columns.
_SAMPLE_ROWS = 20_000
_MIN_ROWS = 50
_ROWS_PER_BIN, _MOST_BINS = 5, 200
# A feature that explains this share of the label is hardly ever known before the label is.
_MIN_SHARE = 0.95
# Whole numbers with at most this many distinct values are classes, otherwise quantities.
MAX_NUMBERED_CLASSES = 20
# A column with at most `_MIN_IDS` distinct values, or more than `_MOST_ROWS_PER_ID` rows per value,
# contains codes (of shops, for example), which splits may share.
_MIN_IDS, _MOST_ROWS_PER_ID = 20, 100
# Names of ids, and names of entities that may have several rows, such as `patient`. Plurals do not
# match, because a column `patients` contains counts.
_ID_NAMES = (
    re.compile(
        r"(?i:(^|[_\W])(id|uuid|guid|key|index|nr|no|number|row)$)|^(?i:id)[_\W]|[a-z]I[dD]$"
    ),
    re.compile(
        r"(?i)(^|[_\W])(patient|subject|participant|person|customer|client|user|member|account|"
        r"household|student|pupil|employee|driver|donor|animal|device|machine|sensor|vehicle|store|"
        r"shop|session|case|site)([_\W]?(id|nr|no|num|number|key|code))?$"
    ),
)
# Equal rows in two splits are reported if their number is above this multiple of the number
# expected for independent columns.
_MORE_THAN_CHANCE = 10

DROP, GROUP = "drop", "group"


@dataclass(frozen=True)
class Leak:
    """A sign of leakage as one sentence, and the column to drop or to group the split by."""

    text: str
    remedy: str = ""
    column: str = ""


def find_leaks(
    splits: Mapping[str, pa.Table],
    labels: Sequence[str],
    *,
    left_out: Collection[str] = (),
    group: str | None = None,
) -> list[Leak]:
    """Returns the signs of leakage in samples of splits, over the columns that all samples have.

    Args:
        splits: Rows of each split, with the training rows first; or one table that is not split
            yet.
        labels: Columns to predict. Texts, and whole numbers with few distinct values, are classes.
        left_out: Columns that the model does not get.
        group: Column by which the splits are grouped: rows with equal values are all in one split.
    """
    # The sample of a split lacks features with several values per row. A feature that has no value
    # in a sample may have another type there.
    first, *others = splits.values()
    names = [
        field.name
        for field in first.schema
        if not (pa.types.is_nested(field.type) or pa.types.is_null(field.type))
        and all(field in table.schema for table in others)
    ]
    labels = [name for name in labels if name in names]
    sample = first.take(pa.array(np.arange(0, first.num_rows, first.num_rows // _SAMPLE_ROWS or 1)))
    features = [n for n in names if n not in {*labels, *left_out, group}]
    found: list[Leak] = []
    for label in labels:
        known = sample.filter(sample[label].is_valid())
        if known.num_rows >= _MIN_ROWS:
            found += _label_leaks(known, label, features)
    parts = {split: table.select(names) for split, table in splits.items()}
    found += _repeated_ids(parts, [n for n in names if n not in {*labels, group}])
    return [*found, *_shared_rows(parts, [*features, *labels])]


def leak_lines(folder: str, splits: Sequence[str], options: GateOptions) -> list[str]:
    if options.leakage == "off":
        return []
    found = find_leaks(
        {split: sample_split(folder, split) for split in splits},
        options.labels,
        left_out=options.left_out,
        group=options.group,
    )
    return [
        leak.text + (f" by group={leak.column}" if leak.remedy == GROUP else "") for leak in found
    ]


def is_id_name(name: str) -> bool:
    """Returns whether a column is named like an id, or like an entity that has several rows."""
    return any(pattern.search(name) for pattern in _ID_NAMES)


def _label_leaks(table: pa.Table, label: str, features: Sequence[str]) -> Iterator[Leak]:
    column = table[label]
    values = np.unique(_numbers(column)) if _is_number(column) else np.empty(0)
    # Texts, and whole numbers with few values, are classes.
    is_class = len(values) <= MAX_NUMBERED_CLASSES and bool((values == np.floor(values)).all())
    y = _codes(column) if is_class else _numbers(column)
    what = "errors of a constant avoided" if is_class else "variance explained"
    for name in features:
        bins = _binned(_numbers(table[name])) if _is_number(table[name]) else _codes(table[name])
        share = _explained(bins, y, is_class=is_class)
        if share >= _MIN_SHARE:
            yield Leak(
                f"{name} alone gives {label} away ({share:.1%} of the {what}); if it is known "
                "only afterwards, leave it out",
                DROP,
                name,
            )


def _repeated_ids(splits: Mapping[str, pa.Table], names: Sequence[str]) -> Iterator[Leak]:
    whole = pa.concat_tables(splits.values())
    first, *others = splits
    for name in filter(is_id_name, names):
        ids = whole[name].drop_null()
        if pa.types.is_floating(ids.type):
            continue
        distinct = len(pc.unique(ids))
        if not max(_MIN_IDS, len(ids) // _MOST_ROWS_PER_ID) < distinct < len(ids):
            continue
        what = f"{name} looks like an id with {distinct:,} values in {len(ids):,} rows"
        if not others:
            yield Leak(f"{what}, so one may stand in train and eval; group the split", GROUP, name)
        known = pc.unique(splits[first][name].drop_null())
        for split in others:
            column = splits[split][name]
            if shared := pc.sum(pc.is_in(column.drop_null(), value_set=known)).as_py():
                yield Leak(
                    f"{what}, and {shared:,} of {len(column):,} rows of {split} have one of "
                    f"{first}; group the split",
                    GROUP,
                    name,
                )


def _shared_rows(splits: Mapping[str, pa.Table], names: Sequence[str]) -> Iterator[Leak]:
    """Yields a leak for each split that shares more rows with the first than chance explains."""
    first, *others = splits
    if not others:
        return
    whole = pa.concat_tables(splits.values())
    bounds = np.cumsum([0, *(table.num_rows for table in splits.values())]).tolist()
    digests, chance = np.zeros(len(whole), np.uint64), 1.0
    for codes in (_codes(whole[name]) for name in names):
        if codes.max(initial=0) + 1 < len(codes):  # otherwise no value repeats, as in an id
            chance *= float(((np.bincount(codes) / len(codes)) ** 2).sum())
            # Products modulo 2^64, whose overflow is intended.
            digests = digests * np.uint64(0x9E3779B97F4A7C15) + codes.astype(np.uint64)
    before = np.unique(digests[: bounds[1]])
    for split, (begin, end) in zip(others, pairwise(bounds[1:]), strict=True):
        shared, rows = int(np.isin(digests[begin:end], before).sum()), end - begin
        if shared > max(1, _MORE_THAN_CHANCE * rows * bounds[1] * chance):
            yield Leak(
                f"{shared:,} of {rows:,} rows of {split} stand in {first}, too, apart from ids; "
                "remove copies, or group the split by what they have in common"
            )


def _is_number(column: pa.ChunkedArray) -> bool:
    return pa.types.is_integer(column.type) or pa.types.is_floating(column.type)


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    # The cast is unsafe so that integers above 2^53 are rounded, not rejected.
    return column.cast(pa.float64(), safe=False).to_numpy()


def _codes(column: pa.ChunkedArray) -> np.ndarray:
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)


def _binned(values: np.ndarray) -> np.ndarray:
    """Returns the quantile bin of each value; NaN has a bin of its own."""
    bins = int(np.clip(len(values) // 2 // _ROWS_PER_BIN, 2, _MOST_BINS))
    known = values[np.isfinite(values)]
    if not len(known):
        return np.zeros(len(values), np.int64)
    edges = np.unique(np.quantile(known, np.linspace(0, 1, bins + 1)))
    return np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values))


def _explained(bins: np.ndarray, y: np.ndarray, *, is_class: bool) -> float:
    """Returns the share by which one prediction per bin reduces the error of a constant prediction.

    Each bin's prediction comes from one half of the rows; the errors are those on the other half.
    """
    shuffled = np.random.default_rng(0).permutation(len(y))
    fit, test = shuffled[::2], shuffled[1::2]
    known = pd.DataFrame({"bin": bins[fit], "y": y[fit]})
    if is_class:
        constant = known["y"].mode()[0]
        guesses = known.value_counts().reset_index().drop_duplicates("bin").set_index("bin")["y"]
    else:
        constant = known["y"].mean()
        guesses = known.groupby("bin")["y"].mean()
    guess = guesses.reindex(bins[test]).fillna(constant).to_numpy()
    error = np.not_equal if is_class else lambda a, b: (a - b) ** 2
    before, after = error(y[test], constant).sum(), error(y[test], guess).sum()
    return 1 - float(after) / float(before) if before else 0.0
