"""Decides from the properties of a column which target or feature it is, or leaves it out."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from penstock.components.errors import DataError, UsageError, nearest
from penstock.components.gates.leakage import MAX_NUMBERED_CLASSES, is_id_name
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.trainer.served_columns import features_by_column_name
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.starter.columns import ColumnLook, null_tokens_remedy
from penstock.pipelines.starter.options import StarterOptions

# A text target with more distinct values than this is refused, because it has too many classes.
_MAX_TEXT_CLASSES = 200
# A text column with a larger share of distinct values than this is an id or free text.
_MAX_TEXT_SHARE = 0.5
_MAX_VOCABULARY = 1000
# Categories that have fewer rows than this get a common id, because so few rows are mostly noise.
# In small samples, the limit is lower (`_frequent`).
_MIN_CATEGORY_ROWS = 5
_MIN_ID_ROWS = 50
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_LOOKED_AT_TEXTS = 1000
# Maximum number of distinct texts without digits in a column of numbers. If there are more, they
# are categories and do not mean missing values.
_MOST_TOKENS = 3
# Least average number of words in free text, and number of buckets to which words and pairs of
# words are hashed.
_MIN_WORDS, _TEXT_BUCKETS = 3, 128
_SORTED_DATE = re.compile(r"\d{4}-\d{2}(-\d{2}|$)")
_EARLY_SHARE = 2 / 3
_POSITIVE = ("yes", "true", "1", "y", "t", "positive", "on")
# Endings of the names of columns that number the rows, if the values are whole numbers without
# duplicates.
_NUMBERING = re.compile(r"(?i)(id|num|nr|no|number|seqn?|key|code|index|row)$")
# A column of whole numbers without duplicates counts as row numbers if random values in the same
# range would include at least this many pairs of equal values (`_numbers_rows`).
_MIN_EXPECTED_PAIRS = 2


@dataclass
class Roles:
    """Roles of the columns, in the order of the data."""

    targets: list[Target] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    booleans: list[str] = field(default_factory=list)
    # Date format by column.
    dates: dict[str, str] = field(default_factory=dict)
    # Number of categories that have an id of their own, by column.
    categories: dict[str, int] = field(default_factory=dict)
    # Number of hash buckets, by column of free text.
    texts: dict[str, int] = field(default_factory=dict)
    # Reason for each column that the model does not get.
    left_out: dict[str, str] = field(default_factory=dict)
    # Targets whose classes are whole numbers; they are read as INT.
    whole: set[str] = field(default_factory=set)

    @property
    def used(self) -> list[str]:
        """Columns that the model gets."""
        return [*self.numbers, *self.booleans, *self.dates, *self.categories, *self.texts]

    def add(self, look: ColumnLook, role: str) -> None:
        """Gives a column one of the roles of `StarterOptions`, other than `drop`."""
        if role == "date":
            assert look.date_format is not None
            self.dates[look.name] = look.date_format
        elif role == "text":
            self.texts[look.name] = _TEXT_BUCKETS
        elif role == "category":
            self.categories[look.name] = min(max(1, _frequent(look)), _MAX_VOCABULARY)
        else:
            (self.numbers if role == "number" else self.booleans).append(look.name)


def find_roles(looks: Sequence[ColumnLook], options: StarterOptions) -> Roles:
    """Decides by `_RULES` the role of each column that has none in the options.

    Raises:
        DataError: A target cannot be predicted, or no column is left from which to predict it.
        UsageError: An option names a column that does not exist or does not fit.
    """
    by_name = {look.name: look for look in looks}
    for name in options.columns:
        if name not in by_name:
            raise UsageError(f"no column {name!r}; {nearest(name, by_name)}")
    if options.group:
        _check_group(by_name[options.group])
    roles = Roles([_target(by_name[name]) for name in options.targets])
    roles.whole = {t.name for t in roles.targets if t.classes and not by_name[t.name].is_text}
    stated: dict[str | None, str] = {
        **dict.fromkeys(options.drop, "dropped on request"),
        options.group: "its rows stay in one split",
        options.time: "divides the rows by time",
    }
    for look in (look for look in looks if look.name not in options.targets):
        role, reason = options.roles.get(look.name), stated.get(look.name, "dropped on request")
        if look.name in stated:
            role = "drop"
        elif role is None:
            rule = next(rule for rule in _RULES if rule.holds(look))
            role, reason = rule.role, rule.reason(look)
        else:
            _check_role(look, role)
        if role == "drop":
            roles.left_out[look.name] = reason
        else:
            roles.add(look, role)
    features_by_column_name(roles.used)
    if not roles.used:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in roles.left_out.items())
        raise DataError(f"no column to predict {', '.join(options.targets)} from ({reasons})")
    return roles


def _check_group(look: ColumnLook) -> None:
    where = f"group {look.name!r}"
    if look.is_list or look.kind is FeatureKind.FLOAT:
        raise UsageError(f"{where}: must hold texts or whole numbers")
    if look.nulls:
        raise UsageError(f"{where}: has no value in {look.nulls:,} rows; fill it in")


def split_at(look: ColumnLook) -> str:
    """Returns the value of a time column at which about the last third of the rows begins."""
    where = f"time {look.name!r}"
    if look.nulls:
        raise UsageError(f"{where}: has no value in {look.nulls:,} rows; fill it in")
    if look.is_list or look.distinct < 2:
        raise UsageError(f"{where}: must hold one time a row, and several in all")
    if look.is_text and not all(map(_SORTED_DATE.match, look.texts)):
        raise UsageError(
            f"{where}: texts such as {look.texts[0]!r} are not in the order of time; write dates "
            "as 2024-12-31"
        )
    values, counts = zip(*sorted(look.counts), strict=True)
    early = bisect_left(list(accumulate(counts)), look.rows * _EARLY_SHARE)
    return str(values[min(early + 1, len(values) - 1)])


def _target(look: ColumnLook) -> Target:
    where = f"target {look.name!r}"
    if look.is_list:
        raise DataError(f"{where}: holds several values a row; expected one")
    if look.distinct < 2:
        found = f"{look.texts[0]!r} in all rows" if look.texts else "no value in any row"
        raise DataError(f"{where}: {found}; expected at least two values")
    texts = look.class_names
    if look.distinct == 2 and (look.is_whole or look.is_text):
        return Target(look.name, "binary", _positive_last(texts, look))
    if look.is_text:
        if _tokens(look):
            raise DataError(f"{where}: {_told_tokens(look)}")
        if look.distinct > min(_MAX_TEXT_CLASSES, look.rows // 2):
            raise DataError(
                f"{where}: {look.distinct} different texts in {look.rows} rows are no classes"
            )
        return Target(look.name, "classes", tuple(sorted(texts)))
    if look.is_whole and look.distinct <= MAX_NUMBERED_CLASSES:
        return Target(look.name, "classes", tuple(sorted(texts, key=int)))
    return Target(look.name, "regression")


def _positive_last(texts: Sequence[str], look: ColumnLook) -> tuple[str, str]:
    """Returns the two classes, with the positive one last.

    Of two numbers, the larger one is the positive class; of two texts, the word that means yes or,
    if neither does, the rarer one.
    """
    if look.is_whole:
        low, high = sorted(texts, key=int)
        return low, high
    frequent, rare = texts  # the most frequent first
    return (rare, frequent) if frequent.strip().lower() in _POSITIVE else (frequent, rare)


def _check_role(look: ColumnLook, role: str) -> None:
    where = f"role of {look.name!r}"
    if role == "drop":
        return
    if look.is_list or not look.present:
        raise UsageError(f"{where}: holds {'lists' if look.is_list else 'no values'}; drop it")
    if role == "date" and look.date_format is None:
        raise UsageError(f"{where}: no dates such as 2024-12-31 or 31.12.2024")
    if role == "number" and look.is_text:
        raise UsageError(f"{where}: holds texts such as {look.texts[0]!r}, no numbers")
    if role == "text" and not look.is_text:
        raise UsageError(f"{where}: holds numbers, no texts")


class _Rule(NamedTuple):
    """A role, and the columns that it fits; a column gets the role of the first rule that holds."""

    role: str
    holds: Callable[[ColumnLook], bool]
    reason: Callable[[ColumnLook], str] = str


def _different(look: ColumnLook) -> str:
    return f"{look.distinct:,} different values in {look.present:,} rows"


def _same(look: ColumnLook) -> str:
    return f"{look.texts[0][:30]!r} in all rows" + (" that have a value" if look.nulls else "")


def _is_mostly_distinct(look: ColumnLook) -> bool:
    return look.present >= _MIN_ID_ROWS and look.distinct > _MAX_TEXT_SHARE * look.present


def _frequent(look: ColumnLook) -> int:
    least = min(_MIN_CATEGORY_ROWS, max(1, look.rows // 50))
    return sum(count >= least for _, count in look.counts)


def _tokens(look: ColumnLook) -> list[str]:
    """Returns the texts, such as `.`, that mean "no value" in a column of numbers.

    Returns none if they are many or contain a digit.
    """
    texts = look.texts[:_LOOKED_AT_TEXTS] if look.is_text else []
    others = [text for text in texts if not _NUMBER.fullmatch(text)]
    are_few = len(others) <= min(_MOST_TOKENS, 0.1 * look.distinct)
    return others if are_few and not re.search(r"\d", "".join(others)) else []


def _told_tokens(look: ColumnLook) -> str:
    return f"numbers and other texts; {null_tokens_remedy(_tokens(look))}"


def _is_free_text(look: ColumnLook) -> bool:
    texts = look.texts[:_LOOKED_AT_TEXTS] if look.is_text else []
    words = sum(len(text.split()) for text in texts)
    return _is_mostly_distinct(look) and words >= _MIN_WORDS * max(1, len(texts))


def _is_id(look: ColumnLook) -> bool:
    if look.is_text and _is_mostly_distinct(look):
        return True
    is_repeated = look.present < _MIN_CATEGORY_ROWS * look.distinct and names_things(look)
    return is_repeated or _numbers_rows(look)


def names_things(look: ColumnLook) -> bool:
    """Returns whether a column's repeated values are ids of things, such as patients."""
    repeats = not look.is_list and 2 < look.distinct < look.present
    return repeats and (look.is_text or look.is_whole) and is_id_name(look.name)


def _numbers_rows(look: ColumnLook) -> bool:
    """Returns whether the values of a column are row numbers: whole numbers without duplicates.

    There must also be at least `_MIN_ID_ROWS` values. In addition, either the name ends like the
    name of an id, or random whole numbers between minimum and maximum would probably include equal
    values: among n random values out of w whole numbers, about n (n - 1) / 2w pairs are equal.
    """
    if not look.is_whole or not look.distinct == look.present >= _MIN_ID_ROWS:
        return False
    values = [float(value) for value, _ in look.counts]
    pairs = len(values) * (len(values) - 1) / 2 / (max(values) - min(values))
    return pairs >= _MIN_EXPECTED_PAIRS or bool(_NUMBERING.search(look.name))


_RULES = (
    _Rule("drop", lambda look: look.is_list, lambda look: "several values a row"),
    _Rule("drop", lambda look: not look.present, lambda look: "no value in any row"),
    _Rule("drop", lambda look: look.distinct == 1, _same),
    _Rule("date", lambda look: look.date_format is not None),
    _Rule("text", _is_free_text),
    _Rule("drop", lambda look: bool(_tokens(look)), _told_tokens),
    _Rule("drop", _is_id, lambda look: f"looks like an id: {_different(look)}"),
    _Rule(
        "drop",
        lambda look: look.is_text and not _frequent(look),
        lambda look: f"every value is rare: {_different(look)}",
    ),
    _Rule("boolean", lambda look: look.is_boolean),
    _Rule("category", lambda look: look.is_text or names_things(look)),
    _Rule("number", lambda look: True),
)
