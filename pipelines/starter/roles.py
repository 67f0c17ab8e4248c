"""Decides from a column's properties whether it is a target, a feature or left out."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from penstock.components.errors import DataError, UsageError, nearest
from penstock.components.gates.leakage import MAX_NUMBERED_CLASSES, is_id_name
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.trainer.served_columns import features_by_column_name
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.starter.columns import ColumnLook, as_text
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
_COMMA_NUMBER = re.compile(r"\s*-?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?\s*")
_SURE_COMMA = re.compile(r"\..*,|,(\d{1,2}|\d{4,})\s*$")
_LOOKED_AT_TEXTS = 1000
# Fewest words of free text, on average; words and pairs of words are hashed.
_MIN_WORDS, _TEXT_BUCKETS = 3, 128
_SORTED_DATE = re.compile(r"\d{4}-\d{2}(-\d{2}|$)")
_EARLY_SHARE = 2 / 3
_PANDAS_INDEX = re.compile(r"__index_level_\d+__|Unnamed: 0")
_POSITIVE = ("yes", "true", "1", "y", "t", "positive", "on")


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
    # Text columns that hold numbers with a decimal comma.
    comma_numbers: list[str] = field(default_factory=list)
    # Number of hash buckets, by column of free text.
    texts: dict[str, int] = field(default_factory=dict)
    # Reason by column that the model does not get.
    left_out: dict[str, str] = field(default_factory=dict)
    # FLOAT columns with only whole numbers, which are read as INT.
    whole: set[str] = field(default_factory=set)
    # Columns with the name of an id whose values repeat.
    repeated_ids: set[str] = field(default_factory=set)

    @property
    def used(self) -> list[str]:
        """Columns that the model gets."""
        numbers = [*self.numbers, *self.comma_numbers, *self.booleans]
        return [*numbers, *self.dates, *self.categories, *self.texts]


def find_roles(looks: Sequence[ColumnLook], options: StarterOptions) -> Roles:
    """Decides the role of each column that has none in the options."""
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
            _give(look, options.roles[look.name], roles)
        elif look.name not in targets:
            _place(look, roles)
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
        if written := _written_numbers(look):
            raise DataError(f"{where}: {written}")
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


def _give(look: ColumnLook, role: str, roles: Roles) -> None:
    where = f"role of {look.name!r}"
    if look.is_list or not look.present:
        raise UsageError(f"{where}: holds {'lists' if look.is_list else 'no values'}; drop it")
    if role == "date":
        if look.date_format is None:
            raise UsageError(f"{where}: no dates such as 2024-12-31, 31.12.2024 or Dec 31 2024")
        roles.dates[look.name] = look.date_format
    elif role == "number":
        if look.kind is FeatureKind.BYTES and not _has_decimal_comma(look):
            raise UsageError(f"{where}: holds texts such as {look.texts[0]!r}, no numbers")
        is_text = look.kind is FeatureKind.BYTES
        (roles.comma_numbers if is_text else roles.numbers).append(look.name)
    elif role == "text":
        if look.kind is not FeatureKind.BYTES:
            raise UsageError(f"{where}: holds numbers, no texts")
        roles.texts[look.name] = _TEXT_BUCKETS
    elif role == "boolean":
        roles.booleans.append(look.name)
    else:
        roles.categories[look.name] = min(max(1, _frequent(look)), _MAX_VOCABULARY)


def _place(look: ColumnLook, roles: Roles) -> None:
    reason = _why_left_out(look)
    if _is_repeated_id(look):
        roles.repeated_ids.add(look.name)
    if reason:
        roles.left_out[look.name] = reason
    elif look.date_format:
        roles.dates[look.name] = look.date_format
    elif look.is_boolean:
        roles.booleans.append(look.name)
    elif _has_decimal_comma(look):
        roles.comma_numbers.append(look.name)
    elif _is_free_text(look):
        roles.texts[look.name] = _TEXT_BUCKETS
    elif look.kind is not FeatureKind.BYTES and look.name not in roles.repeated_ids:
        roles.numbers.append(look.name)
    else:
        roles.categories[look.name] = min(_frequent(look), _MAX_VOCABULARY)


def _is_repeated_id(look: ColumnLook) -> bool:
    is_code = look.kind is FeatureKind.BYTES or look.is_whole
    repeats = 2 < look.distinct < look.present
    return is_code and repeats and is_id_name(look.name)


def _frequent(look: ColumnLook) -> int:
    least = min(_MIN_CATEGORY_ROWS, max(1, look.rows // 50))
    return sum(count >= least for _, count in look.counts)


def _written_numbers(look: ColumnLook) -> str | None:
    """Returns a reason if the texts are numbers that are not read, such as $5; otherwise None."""
    if look.kind is not FeatureKind.BYTES or look.date_format:
        return None
    texts = look.texts[:_LOOKED_AT_TEXTS]
    if not texts or not all(map(_WRITTEN_NUMBER.fullmatch, texts)):
        return None
    if not any(sign in text for text in texts for sign in _NUMBER_SIGNS):
        return None
    return f"numbers that are not read, as {texts[0]!r}; write them as 1234.5"


def _has_decimal_comma(look: ColumnLook) -> bool:
    if look.kind is not FeatureKind.BYTES or look.date_format or look.distinct < 2:
        return False
    texts = look.texts[:_LOOKED_AT_TEXTS]
    return all(map(_COMMA_NUMBER.fullmatch, texts)) and any(map(_SURE_COMMA.search, texts))


def _is_free_text(look: ColumnLook) -> bool:
    if look.kind is not FeatureKind.BYTES or look.date_format or look.present < _MIN_ID_ROWS:
        return False
    texts = look.texts[:_LOOKED_AT_TEXTS]
    words = sum(len(text.split()) for text in texts) / len(texts)
    return look.distinct > _MAX_TEXT_SHARE * look.present and words >= _MIN_WORDS


def _why_left_out(look: ColumnLook) -> str | None:
    if look.is_list:
        return "several values a row"
    if not look.present:
        return "no value in any row"
    if look.distinct == 1:
        return f"{look.texts[0][:30]!r} in all rows" + (" that have a value" if look.nulls else "")
    if look.date_format or _has_decimal_comma(look) or _is_free_text(look):
        return None
    if written := _written_numbers(look):
        return written
    different = f"{look.distinct:,} different values in {look.present:,} rows"
    if look.kind is FeatureKind.BYTES:
        share = look.distinct / look.present
        if share > _MAX_TEXT_SHARE and look.present >= _MIN_ID_ROWS:
            return f"looks like an id or free text: {different}"
        return None if _frequent(look) else f"every value is rare: {different}"
    if _is_repeated_id(look) and look.present < _MIN_CATEGORY_ROWS * look.distinct:
        return f"looks like an id that repeats: {different}"
    if look.kind is FeatureKind.INT and _PANDAS_INDEX.fullmatch(look.name):
        return "the index that pandas gave the rows"
    if look.kind is FeatureKind.INT and look.distinct == look.present >= _MIN_ID_ROWS:
        numbers = [int(value) for value, _ in look.counts]  # type: ignore[call-overload]
        consecutive = max(numbers) - min(numbers) < 1.1 * look.present
        if consecutive or is_id_name(look.name):
            return f"looks like an id: {different}"
    return None
