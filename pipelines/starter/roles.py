"""Decides from a column's properties whether it is a target, a feature or left out."""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from penstock.components.errors import DataError, UsageError, nearest
from penstock.components.gates.leakage import MAX_NUMBERED_CLASSES
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.trainer.served_columns import features_by_column_name
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.starter.columns import ColumnLook, as_text, missing_tokens_remedy
from penstock.pipelines.starter.options import StarterOptions

# Most distinct texts of a target of classes.
_MAX_TEXT_CLASSES = 200
# A text column with a larger share of distinct values is an id or free text.
_MAX_TEXT_SHARE = 0.5
_MAX_VOCABULARY = 1000
# Categories with fewer rows share one id, because so few rows are mostly noise.
_MIN_CATEGORY_ROWS = 5
_MIN_ID_ROWS = 50
_NUMBER_SIGNS = ",%$€£¥"
_WRITTEN_NUMBER = re.compile(rf"[-+ $€£¥]*\d[\d.,' ]*[{_NUMBER_SIGNS} ]*")
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_LOOKED_AT_TEXTS = 1000
# Texts without digits among numbers; more of them are categories, not signs of a missing value.
_MOST_TOKENS = 3
# Fewest words of free text, on average; words and pairs of words are hashed.
_MIN_WORDS, _TEXT_BUCKETS = 3, 128
_SORTED_DATE = re.compile(r"\d{4}-\d{2}(-\d{2}|$)")
_EARLY_SHARE = 2 / 3
_PANDAS_INDEX = re.compile(r"__index_level_\d+__|Unnamed: 0")
_POSITIVE = ("yes", "true", "1", "y", "t", "positive", "on")
# Ends of names of whole numbers that number the rows, if no two rows have the same.
_NUMBERING = re.compile(r"(?i)(id|num|nr|no|number|seqn?|key|code|index|row)$")
# Pairs of equal values that a quantity spread like the column would have; see `_is_numbering`.
_MIN_EXPECTED_PAIRS = 2
_ROWS_PER_BIN = 10


@dataclass
class Roles:
    """Roles of the columns, in the order of the data."""

    targets: list[Target] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    booleans: list[str] = field(default_factory=list)
    # Date format by column.
    dates: dict[str, str] = field(default_factory=dict)
    # Number of values with their own id, by column.
    categories: dict[str, int] = field(default_factory=dict)
    # Number of hash buckets, by column of free text.
    texts: dict[str, int] = field(default_factory=dict)
    # Reason by column that the model does not get.
    left_out: dict[str, str] = field(default_factory=dict)
    # FLOAT columns with only whole numbers, which are read as INT.
    whole: set[str] = field(default_factory=set)

    @property
    def used(self) -> list[str]:
        """Columns that the model gets."""
        return [*self.numbers, *self.booleans, *self.dates, *self.categories, *self.texts]

    def add(self, look: ColumnLook, role: str) -> None:
        """Gives a column one of the roles of `StarterOptions`, but `drop`."""
        if role == "date":
            assert look.date_format is not None
            self.dates[look.name] = look.date_format
        elif role == "text":
            self.texts[look.name] = _TEXT_BUCKETS
        elif role == "category":
            self.categories[look.name] = min(max(1, _frequent(look)), _MAX_VOCABULARY)
        else:
            (self.numbers if role == "number" else self.booleans).append(look.name)


def find_roles(
    looks: Sequence[ColumnLook], options: StarterOptions, entities: Collection[str] = ()
) -> Roles:
    """Decides the role of each column that has none in the options, by `_RULES`.

    Args:
        looks: Properties of the columns.
        options: Roles that the user gave.
        entities: Columns whose values name a thing with several rows, from `find_entities`.
    """
    by_name = {look.name: look for look in looks}
    roles, targets = Roles(), options.targets
    for name in options.columns:
        if name not in by_name:
            raise UsageError(f"no column {name!r}; {nearest(name, by_name)}")
    if options.group:
        _check_group(by_name[options.group])
    for name in targets:
        roles.targets.append(_target(by_name[name]))
        if by_name[name].kind is FeatureKind.FLOAT and roles.targets[-1].classes:
            roles.whole.add(name)
    for look in looks:
        if look.name in options.drop or options.roles.get(look.name) == "drop":
            roles.left_out[look.name] = "dropped on request"
        elif look.name == options.group:
            roles.left_out[look.name] = "its rows stay in one split"
        elif look.name == options.time:
            roles.left_out[look.name] = "divides the rows by time"
        elif look.name in options.roles:
            _check_role(look, options.roles[look.name])
            roles.add(look, options.roles[look.name])
        elif look.name not in targets:
            rule = next(r for r in _RULES if r.holds(look, look.name in entities))
            if rule.role == "drop":
                roles.left_out[look.name] = rule.reason(look)
            else:
                roles.add(look, rule.role)
    features_by_column_name(roles.used)
    if not roles.used:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in roles.left_out.items())
        raise DataError(f"no column to predict {', '.join(targets)} from ({reasons})")
    return roles


def _check_group(look: ColumnLook) -> None:
    where = f"group {look.name!r}"
    if look.is_list or look.kind is FeatureKind.FLOAT:
        raise UsageError(f"{where}: must hold texts or whole numbers")
    if look.nulls:
        raise UsageError(f"{where}: has no value in {look.nulls:,} rows; fill it in")


def split_at(look: ColumnLook) -> str:
    """Returns the value of a time column from which on about the last third of the rows begins."""
    where = f"time {look.name!r}"
    if look.nulls:
        raise UsageError(f"{where}: has no value in {look.nulls:,} rows; fill it in")
    if look.is_list or look.distinct < 2:
        raise UsageError(f"{where}: must hold one time a row, and several in all")
    if look.kind is FeatureKind.BYTES and not all(map(_SORTED_DATE.match, look.texts)):
        raise UsageError(
            f"{where}: texts such as {look.texts[0]!r} are not in the order of time; write dates "
            "as 2024-12-31"
        )
    values, counts = zip(*sorted(look.counts), strict=True)
    early = bisect_left(list(accumulate(counts)), look.rows * _EARLY_SHARE)
    return as_text(values[min(early + 1, len(values) - 1)])


def _target(look: ColumnLook) -> Target:
    where = f"target {look.name!r}"
    if look.is_list:
        raise DataError(f"{where}: holds several values a row; expected one")
    if look.distinct < 2:
        found = f"{look.texts[0]!r} in all rows" if look.texts else "no value in any row"
        raise DataError(f"{where}: {found}; expected at least two values")
    texts = [str(int(float(text))) for text in look.texts] if look.is_whole else look.texts
    if look.distinct == 2 and (look.is_whole or look.kind is FeatureKind.BYTES):
        return Target(look.name, "binary", _positive_last(texts, look))
    if look.kind is FeatureKind.BYTES:
        for holds, reason in ((_has_number_signs, _signs), (_has_missing_tokens, _tokens)):
            if holds(look):
                raise DataError(f"{where}: {reason(look)}")
        if look.distinct > min(_MAX_TEXT_CLASSES, look.rows // 2):
            raise DataError(
                f"{where}: {look.distinct} different texts in {look.rows} rows are no classes"
            )
        return Target(look.name, "classes", tuple(sorted(texts)))
    if look.is_whole and look.distinct <= MAX_NUMBERED_CLASSES:
        return Target(look.name, "classes", tuple(sorted(texts, key=int)))
    return Target(look.name, "regression")


def _positive_last(texts: Sequence[str], look: ColumnLook) -> tuple[str, str]:
    """Returns both classes, the positive one last.

    The positive class is a word for yes, the larger number, or the rarer text.
    """
    if look.is_whole:
        low, high = sorted(texts, key=int)
        return low, high
    frequent, rare = texts  # the most frequent first
    return (rare, frequent) if frequent.strip().lower() in _POSITIVE else (frequent, rare)


def _check_role(look: ColumnLook, role: str) -> None:
    where, is_text = f"role of {look.name!r}", look.kind is FeatureKind.BYTES
    if look.is_list or not look.present:
        raise UsageError(f"{where}: holds {'lists' if look.is_list else 'no values'}; drop it")
    if role == "date" and look.date_format is None:
        raise UsageError(f"{where}: no dates such as 2024-12-31 or 31.12.2024")
    if role == "number" and is_text:
        raise UsageError(f"{where}: holds texts such as {look.texts[0]!r}, no numbers")
    if role == "text" and not is_text:
        raise UsageError(f"{where}: holds numbers, no texts")


class _Rule(NamedTuple):
    """The role of a column of which `holds(look, is_entity)`; columns get the first that holds."""

    role: str
    holds: Callable[[ColumnLook, bool], bool]
    reason: Callable[[ColumnLook], str] = str


def _different(look: ColumnLook) -> str:
    return f"{look.distinct:,} different values in {look.present:,} rows"


def _signs(look: ColumnLook) -> str:
    return f"numbers that are not read, as {look.texts[0]!r}; write them as 1234.5"


def _tokens(look: ColumnLook) -> str:
    return f"numbers and other texts; {missing_tokens_remedy(_no_numbers(look))}"


def _same(look: ColumnLook) -> str:
    return f"{look.texts[0][:30]!r} in all rows" + (" that have a value" if look.nulls else "")


def _is_text(look: ColumnLook) -> bool:
    return look.kind is FeatureKind.BYTES


def _is_mostly_distinct(look: ColumnLook) -> bool:
    return look.present >= _MIN_ID_ROWS and look.distinct > _MAX_TEXT_SHARE * look.present


def _frequent(look: ColumnLook) -> int:
    least = min(_MIN_CATEGORY_ROWS, max(1, look.rows // 50))
    return sum(count >= least for _, count in look.counts)


def _has_number_signs(look: ColumnLook) -> bool:
    """Returns whether the texts are numbers with a sign that is not read, such as $5 or 1,5."""
    texts = look.texts[:_LOOKED_AT_TEXTS] if _is_text(look) else []
    has_sign = any(sign in text for text in texts for sign in _NUMBER_SIGNS)
    return has_sign and all(map(_WRITTEN_NUMBER.fullmatch, texts))


def _no_numbers(look: ColumnLook) -> list[str]:
    return [text for text in look.texts[:_LOOKED_AT_TEXTS] if not _NUMBER.fullmatch(text)]


def _has_missing_tokens(look: ColumnLook) -> bool:
    """Returns whether the texts are numbers, but for a few without a digit, such as `.`."""
    others = _no_numbers(look) if _is_text(look) else []
    numbers = look.distinct - len(others)
    return (
        0 < len(others) <= _MOST_TOKENS < numbers
        and len(others) <= 0.1 * look.distinct
        and not any(character.isdigit() for text in others for character in text)
    )


def _is_free_text(look: ColumnLook) -> bool:
    texts = look.texts[:_LOOKED_AT_TEXTS] if _is_text(look) else []
    words = sum(len(text.split()) for text in texts)
    return _is_mostly_distinct(look) and words >= _MIN_WORDS * max(1, len(texts))


def _is_numbering(look: ColumnLook) -> bool:
    """Returns whether whole numbers, of which no two are equal, number the rows.

    They do if their name says so, or if a quantity that is spread like them would have equal
    values: of c values in a bin of w whole numbers, about c (c - 1) / 2w pairs are equal.
    """
    if not look.is_whole or not look.distinct == look.present >= _MIN_ID_ROWS:
        return False
    values = np.array([float(value) for value, _ in look.counts])  # type: ignore[arg-type]
    counts, edges = np.histogram(values, max(1, len(values) // _ROWS_PER_BIN))
    pairs = (counts * (counts - 1) / (2 * np.maximum(np.diff(edges), 1))).sum()
    return bool(pairs >= _MIN_EXPECTED_PAIRS or _NUMBERING.search(look.name))


def _has_few_rows_a_value(look: ColumnLook) -> bool:
    return look.present < _MIN_CATEGORY_ROWS * look.distinct


_RULES = (
    _Rule("drop", lambda c, _: c.is_list, lambda c: "several values a row"),
    _Rule("drop", lambda c, _: not c.present, lambda c: "no value in any row"),
    _Rule("drop", lambda c, _: c.distinct == 1, _same),
    _Rule("date", lambda c, _: c.date_format is not None),
    _Rule("text", lambda c, _: _is_free_text(c)),
    _Rule("drop", lambda c, _: _has_number_signs(c), _signs),
    _Rule("drop", lambda c, _: _has_missing_tokens(c), _tokens),
    _Rule(
        "drop",
        lambda c, _: _is_text(c) and _is_mostly_distinct(c),
        lambda c: f"looks like an id or free text: {_different(c)}",
    ),
    _Rule(
        "drop",
        lambda c, _: c.kind is FeatureKind.INT and bool(_PANDAS_INDEX.fullmatch(c.name)),
        lambda c: "the index that pandas gave the rows",
    ),
    _Rule("drop", lambda c, _: _is_numbering(c), lambda c: f"looks like an id: {_different(c)}"),
    _Rule(
        "drop",
        lambda c, is_entity: is_entity and _has_few_rows_a_value(c),
        lambda c: f"looks like an id that repeats: {_different(c)}",
    ),
    _Rule(
        "drop",
        lambda c, _: _is_text(c) and not _frequent(c),
        lambda c: f"every value is rare: {_different(c)}",
    ),
    _Rule("boolean", lambda c, _: c.is_boolean),
    _Rule("category", lambda c, is_entity: is_entity or _is_text(c)),
    _Rule("number", lambda c, _: True),
)
