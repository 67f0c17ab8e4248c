"""The role of each column of a table: looks in; features, targets and columns left out, out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.components.errors import DataError, UsageError, nearest
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.trainer.served_columns import features_by_column_name
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.starter.columns import ColumnLook

# Whole numbers up to so many different ones are classes, else a quantity; texts up to so many.
_MAX_NUMBERED_CLASSES = 20
_MAX_TEXT_CLASSES = 200
# Text of more different values than this share of its rows says who, not what.
_MAX_TEXT_SHARE = 0.5
_MAX_VOCABULARY = 1000
# Below so many rows a category is noise: it shares an id with all others that are as rare.
_MIN_CATEGORY_ROWS = 5
_MIN_ID_ROWS = 50
_ID_NAME = re.compile(
    r"(?i:(^|[_\W])(id|uuid|guid|key|index|nr|no|number|row)$)|^(?i:id)[_\W]|[a-z]I[dD]$"
)
_NUMBER_SIGNS = ",%$€£¥"
_WRITTEN_NUMBER = re.compile(rf"[-+ $€£¥]*\d[\d.,' ]*[{_NUMBER_SIGNS} ]*")
_LOOKED_AT_TEXTS = 1000
_PANDAS_INDEX = re.compile(r"__index_level_\d+__|Unnamed: 0")
_POSITIVE = ("yes", "true", "1", "y", "t", "positive", "on")


@dataclass
class Roles:
    """What the columns are for; the order is that of the data.

    Attributes:
        targets: What is predicted.
        numbers: Scaled.
        booleans: Yes and no.
        dates: Format of each date.
        categories: How many values of each count by themselves.
        left_out: Why each other column is left out.
        whole: Columns of FLOAT that hold whole numbers only and are read as such.
    """

    targets: list[Target] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    booleans: list[str] = field(default_factory=list)
    dates: dict[str, str] = field(default_factory=dict)
    categories: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)

    @property
    def features(self) -> int:
        """Columns that the model is given."""
        groups = (self.numbers, self.booleans, self.dates, self.categories)
        return sum(len(group) for group in groups)


def find_roles(looks: Sequence[ColumnLook], targets: Sequence[str]) -> Roles:
    """Decide what each column is for; `targets` are to be predicted.

    Raises:
        UsageError: There is no such column, or two columns have one name when served.
        DataError: A target has no value in some row, one value in all, or values that are neither
            classes nor numbers; or no column is left to predict it from.
    """
    by_name = {look.name: look for look in looks}
    roles = Roles()
    for name in targets:
        if name not in by_name:
            raise UsageError(f"no column {name!r}; {nearest(name, by_name)}")
        roles.targets.append(_target(by_name[name]))
        if by_name[name].kind is FeatureKind.FLOAT and roles.targets[-1].classes:
            roles.whole.add(name)
    for look in looks:
        if look.name not in targets:
            _place(look, roles)
    features_by_column_name([*roles.numbers, *roles.booleans, *roles.dates, *roles.categories])
    if not roles.features:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in roles.left_out.items())
        raise DataError(f"no column to predict {', '.join(targets)} from ({reasons})")
    return roles


def _target(look: ColumnLook) -> Target:
    where = f"target {look.name!r}"
    if look.is_list:
        raise DataError(f"{where}: holds several values a row; expected one")
    if look.nulls:
        raise DataError(
            f"{where}: has no value in {look.nulls:,} of the {look.rows:,} rows looked at; leave "
            "these rows out of the data: a model learns nothing from them"
        )
    if look.distinct < 2:
        raise DataError(f"{where}: {look.texts[0]!r} in all rows; expected at least two values")
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
    if look.is_whole and look.distinct <= _MAX_NUMBERED_CLASSES:
        return Target(look.name, "classes", tuple(sorted(texts, key=int)))
    return Target(look.name, "regression")


def _positive_last(texts: Sequence[str], look: ColumnLook) -> tuple[str, str]:
    """The positive class is the one that says yes, the larger number, or else the rarer one."""
    if look.is_whole:
        low, high = sorted(texts, key=int)
        return low, high
    frequent, rare = texts  # the most frequent first
    return (rare, frequent) if frequent.strip().lower() in _POSITIVE else (frequent, rare)


def _place(look: ColumnLook, roles: Roles) -> None:
    reason = _why_left_out(look)
    if reason:
        roles.left_out[look.name] = reason
    elif look.date_format:
        roles.dates[look.name] = look.date_format
    elif look.is_boolean:
        roles.booleans.append(look.name)
    elif look.kind is not FeatureKind.BYTES:
        roles.numbers.append(look.name)
    else:
        roles.categories[look.name] = min(_frequent(look), _MAX_VOCABULARY)


def _frequent(look: ColumnLook) -> int:
    least = min(_MIN_CATEGORY_ROWS, max(1, look.rows // 50))
    return sum(count >= least for _, count in look.counts)


def _written_numbers(look: ColumnLook) -> str | None:
    """Why text is numbers for people, as 1.234,50 or $5; None where it is not."""
    if look.kind is not FeatureKind.BYTES or look.date_format:
        return None
    texts = look.texts[:_LOOKED_AT_TEXTS]
    if not texts or not all(map(_WRITTEN_NUMBER.fullmatch, texts)):
        return None
    if not any(sign in text for text in texts for sign in _NUMBER_SIGNS):
        return None
    return f"numbers that are not read, as {texts[0]!r}; write them as 1234.5"


def _why_left_out(look: ColumnLook) -> str | None:
    """In words; None where the column is of use."""
    if look.is_list:
        return "several values a row"
    if not look.present:
        return "no value in any row"
    if look.distinct == 1:
        return f"{look.texts[0][:30]!r} in all rows" + (" that have a value" if look.nulls else "")
    if look.date_format:
        return None
    if written := _written_numbers(look):
        return written
    different = f"{look.distinct:,} different values in {look.present:,} rows"
    if look.kind is FeatureKind.BYTES:
        share = look.distinct / look.present
        if share > _MAX_TEXT_SHARE and look.present >= _MIN_ID_ROWS:
            return f"looks like an id or free text: {different}"
        return None if _frequent(look) else f"every value is rare: {different}"
    if look.kind is FeatureKind.INT and _PANDAS_INDEX.fullmatch(look.name):
        return "the index that pandas gave the rows"
    if look.kind is FeatureKind.INT and look.distinct == look.present >= _MIN_ID_ROWS:
        numbers = [int(value) for value, _ in look.counts]  # type: ignore[call-overload]
        consecutive = max(numbers) - min(numbers) < 1.1 * look.present
        if consecutive or _ID_NAME.search(look.name):
            return f"looks like an id: {different}"
    return None
