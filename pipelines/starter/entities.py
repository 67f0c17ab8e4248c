"""Finds columns that name a thing with several rows, such as a patient: rows that belong together.

Such a column is a code, not a quantity; and if its rows stand in both splits, the evaluation
measures how well the model knows these things, not how it does on new ones.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from penstock.components.gates.leakage import GROUP, Leak, is_id_name
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.pipelines.starter.columns import ColumnLook

# A name of one thing that has rows; a plural counts things and is a quantity.
_THING = re.compile(
    r"(?i)(^|[_\W])(patient|subject|participant|person|customer|client|user|member|account|"
    r"household|student|pupil|employee|driver|donor|animal|device|machine|sensor|vehicle|store|"
    r"shop|session|case|site)([_\W]?(id|nr|no|num|number|key|code))?$"
)
# A column with fewer values, or more rows a value, holds codes (of shops, say) that splits share.
_MIN_VALUES, _MOST_ROWS_A_VALUE = 20, 100
# Rows that would contradict a property of a thing by chance, if it were none.
_MIN_SURPRISES = 10


def find_entities(table: pa.Table, looks: Sequence[ColumnLook]) -> set[str]:
    """Returns the columns whose values repeat and that are ids, by their name or their rows.

    By its rows, a whole number is an id if all rows of a number agree in another column, which is
    no function of the number's size: of a patient, all rows have the same sex.
    """
    repeated = [look for look in looks if not look.is_list and 1 < look.distinct < look.present]
    codes = {look.name: _codes(table[look.name]) for look in repeated}
    return {
        look.name
        for look in repeated
        if look.distinct > 2
        and (look.kind is FeatureKind.BYTES or look.is_whole)
        and (is_id_name(look.name) or _is_thing(look) or _has_properties(look, codes))
    }


def together(looks: Sequence[ColumnLook], entities: set[str], group: str | None) -> Iterator[Leak]:
    """Yields a sign of leakage for each such column by which the split is not grouped."""
    for look in looks:
        if look.name in entities and look.name != group and _is_divided(look):
            yield Leak(
                f"{look.name} has {look.distinct:,} values in {look.present:,} rows: rows with "
                "equal ones belong together, but may stand in train and eval; group the split",
                GROUP,
                look.name,
            )


def _is_divided(look: ColumnLook) -> bool:
    return max(_MIN_VALUES, look.present // _MOST_ROWS_A_VALUE) < look.distinct < look.present


def _is_thing(look: ColumnLook) -> bool:
    return bool(_THING.search(look.name)) and _is_divided(look)


def _has_properties(look: ColumnLook, codes: Mapping[str, np.ndarray]) -> bool:
    """Returns whether another column is the same in all rows of each value, without any order."""
    if not look.is_whole or not _is_divided(look):
        return False
    own = codes[look.name]
    order = np.argsort(own, kind="stable")
    begins = np.diff(own[order], prepend=-2) != 0
    for name, all_values in codes.items():
        if name == look.name:
            continue
        values = all_values[order]
        changes = np.diff(values, prepend=-2) != 0
        shares = np.bincount(values + 1) / len(values)
        surprises = (~begins).sum() * (1 - (shares**2).sum())
        distinct = (shares > 0).sum()
        is_property = distinct <= look.distinct / 2 and not (changes & ~begins).any()
        if is_property and surprises >= _MIN_SURPRISES and changes.sum() > 2 * distinct + 2:
            return True
    return False


def _codes(column: pa.ChunkedArray) -> np.ndarray:
    """Returns the rank of each value, int64 [rows]; -1 for none."""
    array = column.combine_chunks()
    values = np.unique(array.drop_null().to_numpy(zero_copy_only=False))
    ranks = {value: rank for rank, value in enumerate(values.tolist())}
    return np.array([ranks.get(value, -1) for value in array.to_pylist()], np.int64)
