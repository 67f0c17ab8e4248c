"""Signs of leakage in a table: features that give the target away, and ids that repeat.

In: a sample of rows. Out: one line per sign, with figures. Each feature is cut into bins; the mean
or the most frequent class of a bin in one half of the sample predicts the other half. Sums,
differences, products and ratios of two numbers are found by correlation, in matrices.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.pipelines.blocks.target import Target
from penstock.pipelines.starter.columns import ColumnLook
from penstock.pipelines.starter.roles import Roles

# The whole look at 100,000 rows of 50 columns then takes less than a second.
_SAMPLE_ROWS = 20_000
_MIN_ROWS = 50
_ROWS_PER_BIN, _MOST_BINS = 5, 200
# A feature that explains so much of the target hardly ever is known before it.
_MIN_SHARE, _MIN_PAIR_SHARE = 0.95, 0.999
_MOST_PAIRED = 60
# Fewer values, or more rows of each, are codes such as those of shops, which train and eval share.
_MIN_IDS, _MOST_ROWS_PER_ID = 20, 100


def find_leaks(
    table: pa.Table, looks: Sequence[ColumnLook], roles: Roles, group: str | None = None
) -> list[str]:
    """Returns one line for each feature or id that may leak the target."""
    step = max(1, table.num_rows // _SAMPLE_ROWS)
    table = table.take(pa.array(np.arange(0, table.num_rows, step)))
    found: list[str] = []
    for target in roles.targets:
        known = table.filter(table[target.name].is_valid())
        if known.num_rows >= _MIN_ROWS:
            found += _target_leaks(known, target, roles)
    return [*found, *_repeated_ids(looks, roles, group)]


def _target_leaks(table: pa.Table, target: Target, roles: Roles) -> Iterator[str]:
    y = _codes(table[target.name]) if target.classes else _numbers(table[target.name])
    alone = set()
    for name in (*roles.numbers, *roles.booleans, *roles.dates, *roles.categories):
        column = table[name]
        is_text = not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type)
        bins = _codes(column) if is_text else _binned(_numbers(column))
        share = _explained(bins, y, is_class=bool(target.classes))
        if share >= _MIN_SHARE:
            alone.add(name)
            what = "errors of a constant avoided" if target.classes else "variance explained"
            yield (
                f"{name} alone gives {target.name} away ({share:.1%} of the {what}); if it is "
                f"known only afterwards, leave it out by `drop={name!r}`"
            )
    if target.classes:
        return
    names = [name for name in roles.numbers if name not in alone][:_MOST_PAIRED]
    for (a, b), sign, share in _pairs(table, names, y):
        yield (
            f"{a} {sign} {b} gives {target.name} away ({share:.1%} of the variance explained); "
            f"leave one out by `drop={b!r}`"
        )


def _repeated_ids(looks: Sequence[ColumnLook], roles: Roles, group: str | None) -> Iterator[str]:
    for look in looks:
        is_person = look.distinct > max(_MIN_IDS, look.present // _MOST_ROWS_PER_ID)
        if look.name in roles.repeated_ids and is_person and look.name != group:
            yield (
                f"{look.name} looks like an id with {look.distinct:,} values in {look.present:,} "
                f"rows, so one may stand in train and eval; keep its rows together by "
                f"`group={look.name!r}`"
            )


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    # Unsafe: integers above 2^53 are rounded instead of refused.
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
    """Returns the share of a constant's error that bins, fitted on one half, avoid on the other."""
    shuffled = np.random.default_rng(0).permutation(len(y))
    fit, test = shuffled[::2], shuffled[1::2]
    count = int(bins.max()) + 1
    if is_class:
        classes = int(y.max()) + 1
        table = np.zeros((count, classes), np.int64)
        np.add.at(table, (bins[fit], y[fit]), 1)
        constant = table.sum(axis=0).argmax()
        guess = np.where(table.sum(axis=1) > 0, table.argmax(axis=1), constant)
        before, after = (y[test] != constant).sum(), (y[test] != guess[bins[test]]).sum()
    else:
        rows = np.bincount(bins[fit], minlength=count)
        sums = np.bincount(bins[fit], weights=y[fit], minlength=count)
        mean = y[fit].mean()
        guess = np.where(rows > 0, sums / np.maximum(rows, 1), mean)
        before = ((y[test] - mean) ** 2).sum()
        after = ((y[test] - guess[bins[test]]) ** 2).sum()
    return 1 - float(after) / float(before) if before else 0.0


def _pairs(
    table: pa.Table, names: Sequence[str], y: np.ndarray
) -> Iterator[tuple[tuple[str, str], str, float]]:
    """Yields pairs of columns whose sum, difference, product or ratio is linear in y."""
    columns = [_numbers(table[name]) for name in names]
    whole = [i for i, column in enumerate(columns) if np.isfinite(column).all()]
    positive = [i for i in whole if (columns[i] > 0).all()] if (y > 0).all() else []
    logs = {i: np.log(columns[i]) for i in positive}
    for chosen, values, label, signs in (
        (whole, columns, y, "+-"),
        (positive, logs, np.log(y) if positive else y, "*/"),
    ):
        if len(chosen) < 2:
            continue
        cov = np.cov(np.stack([values[i] for i in chosen] + [label]))
        for (m, i), (n, j) in itertools.combinations(enumerate(chosen), 2):
            for sign, weight in zip(signs, (1, -1), strict=True):
                spread = cov[m, m] + cov[n, n] + 2 * weight * cov[m, n]
                joint = cov[m, -1] + weight * cov[n, -1]
                if spread <= 1e-9 * (cov[m, m] + cov[n, n]) or not cov[-1, -1]:
                    continue
                share = joint**2 / (spread * cov[-1, -1])
                single = max(cov[k, -1] ** 2 / (cov[k, k] * cov[-1, -1] or 1) for k in (m, n))
                if share >= _MIN_PAIR_SHARE > single:
                    yield (names[i], names[j]), sign, share
