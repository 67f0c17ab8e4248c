"""Parts of a `preprocessing_fn`: they turn raw columns into tensors for a model.

Most functions take the raw features of `preprocessing_fn` and names of columns. They return one
tensor of all these columns, because an analyzer of twenty stacked columns costs as much as an
analyzer of one column. Missing values are not errors: a missing number becomes the mean, and
another column marks it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import tensorflow as tf
import tensorflow_transform as tft

from penstock.components import image_features as names
from penstock.components.trainer.served_columns import column_name
from penstock.pipelines.blocks.target import Target, transformed_name

Column: TypeAlias = "tf.Tensor | tf.SparseTensor"
Columns: TypeAlias = Mapping[str, Column]

NUMBERS_XF = "numbers_xf"
"""Input of `table_model` that it uses without an embedding: float32 [batch, numbers]."""
CATEGORIES_XF = "categories_xf"
"""Input of `table_model` whose columns each get an embedding: int64 [batch, categories]."""

# Possible names of the features with the height and width of raw pixels, as in `image_decode`.
_SIZES = (names.HEIGHT, names.WIDTH, "height", "width")
CLASSES = "classes"
"""Name of the vocabulary of image classes; an entry is a class number, a tab and a class name."""

# Ids of a category: 0 means no value, 1 a value outside the vocabulary, and 2 or more a value of
# the vocabulary.
_NO_VALUE, _UNKNOWN, _FIRST = 0, 1, 2

_TRUE = ("1", "t", "true", "y", "yes", "on")
_FALSE = ("0", "f", "false", "n", "no", "off")

_CLOCK = r"(?:[T ]+(\d{1,2}):(\d{2}).*)?"
_DATE_TEXTS = {
    "ymd": (rf"^\s*(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}}){_CLOCK}\s*$", (1, 2, 3)),
    "dmy": (rf"^\s*(\d{{1,2}})[-/.](\d{{1,2}})[-/.](\d{{4}}){_CLOCK}\s*$", (3, 2, 1)),
    "mdy": (rf"^\s*(\d{{1,2}})[-/.](\d{{1,2}})[-/.](\d{{4}}){_CLOCK}\s*$", (3, 1, 2)),
}
_TICKS_A_DAY = {"days": 1, "seconds": 86_400, "microseconds": 86_400_000_000}
DATE_FORMATS = (*_DATE_TEXTS, *_TICKS_A_DAY)
"""Order of year, month and day in a text; or the unit of whole numbers since 1970-01-01."""


def dense_column(column: Column, default: object = None) -> tf.Tensor:
    """Returns [batch, 1]; a row without a value gets `default`, which is 0 or "" if not given."""
    if not isinstance(column, tf.SparseTensor):
        return tf.reshape(column, [-1, 1])
    if default is None:
        default = "" if column.dtype == tf.string else 0
    # If all records of a batch have empty lists, the sparse tensor has a width of 0 columns.
    one_column = tf.SparseTensor(column.indices, column.values, [column.dense_shape[0], 1])
    return tf.ensure_shape(tf.sparse.to_dense(one_column, default), [None, 1])


def table_inputs(*, numbers: Sequence[tf.Tensor], categories: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the inputs of `table_model`: all numbers in one tensor, and the categories.

    Args:
        numbers: Tensors from the functions below, float32 [batch, n]; those with n = 0 are left
            out.
        categories: int64 [batch, n], from `category_ids`; left out if n = 0.
    """
    wide = [part for part in numbers if part.shape[1]]
    inputs = {NUMBERS_XF: tf.concat(wide, axis=1)} if wide else {}
    return {**inputs, CATEGORIES_XF: categories} if categories.shape[1] else inputs


def scaled_numbers(inputs: Columns, names: Sequence[str]) -> tf.Tensor:
    """Scales numbers to mean 0 and variance 1, and marks missing ones, which get the mean.

    Returns:
        float32 [batch, 2 * len(names)]: first the numbers, then 1.0 for each missing one.
    """
    if not names:
        return _side_by_side(inputs, (), tf.float32)
    return _scaled(tf.concat([_number(inputs[name]) for name in names], axis=1))


def word_counts(inputs: Columns, sizes: Mapping[str, int]) -> tf.Tensor:
    """Counts the words and word pairs of texts in hash buckets; returns log(1 + count).

    Args:
        inputs: Raw features by name.
        sizes: Number of hash buckets of each column.

    Returns:
        float32 [batch, sum of sizes].
    """
    counts = [_word_counts(inputs[name], size) for name, size in sizes.items()]
    return _side_by_side(inputs, counts, tf.float32)


def _word_counts(column: Column, size: int) -> tf.Tensor:
    texts = tf.strings.lower(tf.reshape(dense_column(column), [-1]), encoding="utf-8")
    words = tf.strings.split(tf.strings.regex_replace(texts, r"[^\pL\pN]+", " "))
    terms = tf.strings.ngrams(words, (1, 2))
    places = tf.stack(
        [terms.value_rowids(), tf.strings.to_hash_bucket_fast(terms.flat_values, size)], axis=1
    )
    ones = tf.ones_like(places[:, 0], tf.float32)
    counts = tf.scatter_nd(places, ones, tf.stack([tf.size(texts, tf.int64), size]))
    return tf.ensure_shape(tf.math.log1p(counts), [None, size])


def boolean_numbers(inputs: Columns, names: Sequence[str]) -> tf.Tensor:
    """Turns texts (`true`, `no`, `1`) or numbers into 1.0 or 0.0, and marks missing values.

    Returns:
        float32 [batch, 2 * len(names)]: first the values (0.5 for a missing one), then 1.0 for each
        missing one.
    """
    values = _side_by_side(inputs, [_boolean(inputs[name]) for name in names], tf.float32)
    missing = tf.math.is_nan(values)
    return tf.concat([tf.where(missing, 0.5, values), tf.cast(missing, tf.float32)], axis=1)


def date_parts(inputs: Columns, formats: Mapping[str, str]) -> tf.Tensor:
    """Turns dates into scaled days, and month, weekday and time of day into points on circles.

    Args:
        inputs: Raw features by name.
        formats: Format of each column, one of `DATE_FORMATS`. A text may have a time of day after
            the date; a text that is not a date counts as missing.

    Returns:
        float32 [batch, 8 * len(formats)]: the days scaled to mean 0 and variance 1, 1.0 for each
        missing date, then sine and cosine of month, weekday and time of day.
    """
    if not formats:
        return _side_by_side(inputs, (), tf.float32)
    stacked = tf.concat([_days(inputs[n], f) for n, f in formats.items()], axis=1)  # with NaN
    whole = tf.floor(tf.where(tf.math.is_nan(stacked), tf.zeros_like(stacked), stacked))
    circles = [
        (_month(tf.cast(whole, tf.int64)) - 1.0) / 12.0,
        tf.cast(tf.math.floormod(whole + 4.0, 7.0), tf.float32) / 7.0,  # 1970-01-01 was a Thursday
        tf.cast(stacked - whole, tf.float32),
    ]
    here = tf.cast(~tf.math.is_nan(stacked), tf.float32)
    turns = [2 * math.pi * tf.where(here > 0, circle, 0.0) for circle in circles]
    waves = [here * wave(turn) for turn in turns for wave in (tf.sin, tf.cos)]
    return tf.concat([_scaled(stacked), *waves], axis=1)


def category_ids(inputs: Columns, sizes: Mapping[str, int]) -> tf.Tensor:
    """Turns texts or whole numbers into ids: 0 if none, 1 if rare or unknown, from 2 by frequency.

    Args:
        inputs: Raw features by name.
        sizes: Number of the most frequent values in each column that get an id of their own.

    Returns:
        int64 [batch, len(sizes)]; `category_sizes(sizes)` returns the number of ids of each column.
    """
    ids = [_ids(inputs[name], name, size) for name, size in sizes.items()]
    return _side_by_side(inputs, ids, tf.int64)


def category_sizes(sizes: Mapping[str, int]) -> list[int]:
    """Returns the number of ids of each column of `category_ids`."""
    return [size + _FIRST for size in sizes.values()]


def target_labels(inputs: Columns, targets: Iterable[Target]) -> dict[str, tf.Tensor]:
    """Returns the label of each target, under the name `target.label`.

    Returns:
        int64 [batch, 1], the number of the class, -1 if unknown; or float32 [batch, 1], the value
        for a regression.
    """
    return {target.label: _label(inputs[target.name], target.classes) for target in targets}


def _label(column: Column, classes: Sequence[str]) -> tf.Tensor:
    if not classes:
        return tf.cast(dense_column(column), tf.float32)
    numbers = list(range(len(classes)))
    words = tf.lookup.KeyValueTensorInitializer(list(classes), numbers, tf.string, tf.int64)
    return tf.lookup.StaticHashTable(words, -1).lookup(_text(column))


def image_classes(
    inputs: Columns, *, image: str = names.ENCODED, label: str = names.LABEL
) -> dict[str, tf.Tensor]:
    """A `preprocessing_fn` that returns image and label unchanged; writes the vocabulary `CLASSES`.

    Args:
        inputs: Raw features by name; [batch, 1] or sparse [batch, <=1], int64 or string.
        image: Name of the image feature.
        label: Name of the feature with the class, a whole number.

    Returns:
        The stored image, its height and width if the data has them, and the label, int64
        [batch, 1], under the name `transformed_name(label)`.
    """
    number = dense_column(inputs[label])
    text = tf.strings.as_string(number)
    # If the data has no names of classes, the class numbers are used as names.
    words = dense_column(inputs[names.TEXT]) if names.TEXT in inputs else text
    tft.vocabulary(tf.strings.join([text, words], "\t"), vocab_filename=CLASSES)
    stored = {name: dense_column(inputs[name]) for name in (image, *_SIZES) if name in inputs}
    return {**stored, transformed_name(label): number}


def _side_by_side(inputs: Columns, parts: Sequence[tf.Tensor], dtype: tf.DType) -> tf.Tensor:
    """Returns [batch, n]: the columns of all parts, each of which is [batch, m]."""
    if parts:
        return tf.concat(parts, axis=1)
    rows = tf.shape(dense_column(next(iter(inputs.values()))))[0]
    return tf.zeros(tf.stack([rows, 0]), dtype)


def _scaled(values: tf.Tensor) -> tf.Tensor:
    """Returns float32 [batch, 2n]: scaled values, with 0 for NaN; then 1.0 for each NaN."""
    missing = tf.math.is_nan(values)
    # The scaling uses float64, because float32 sums of a batch of 8,192 rows changed z-scores by
    # 1.6e-5, and the mean of dates by half an hour. `elementwise` is off for a single column,
    # for which TFT would return the elementwise mean as a scalar.
    scaled = tft.scale_to_z_score(tf.cast(values, tf.float64), elementwise=values.shape[1] > 1)
    scaled = tf.cast(tf.where(missing, tf.zeros_like(scaled), scaled), tf.float32)
    return tf.concat([scaled, tf.cast(missing, tf.float32)], axis=1)


def _number(column: Column) -> tf.Tensor:
    return dense_column(_map(column, lambda values: tf.cast(values, tf.float32)), math.nan)


def _boolean(column: Column) -> tf.Tensor:
    if column.dtype != tf.string:
        values = _number(column)
        return tf.where(tf.math.is_nan(values), values, tf.cast(values != 0, tf.float32))
    texts = tf.strings.lower(tf.strings.strip(dense_column(column)))
    words = tf.lookup.KeyValueTensorInitializer(
        [*_TRUE, *_FALSE], [1.0] * len(_TRUE) + [0.0] * len(_FALSE), tf.string, tf.float32
    )
    return tf.lookup.StaticHashTable(words, math.nan).lookup(texts)


def _text(column: Column) -> tf.Tensor:
    return dense_column(column if column.dtype == tf.string else _map(column, tf.strings.as_string))


def _map(column: Column, function: Callable[[tf.Tensor], tf.Tensor]) -> Column:
    is_sparse = isinstance(column, tf.SparseTensor)
    return column.with_values(function(column.values)) if is_sparse else function(column)


def _ids(column: Column, name: str, size: int) -> tf.Tensor:
    texts = _text(column)
    ranks = tft.compute_and_apply_vocabulary(
        # Rows without a value are left out, because a missing value is not a category.
        tf.sparse.from_dense(texts),
        top_k=size,
        default_value=_UNKNOWN - _FIRST,
        # The name becomes part of a file name and of a TensorFlow scope, which allow few
        # characters.
        vocab_filename=column_name(name),
    )
    return dense_column(ranks.with_values(ranks.values + _FIRST), _NO_VALUE)


def _days(column: Column, format_: str) -> tf.Tensor:
    """Returns float64 [batch, 1]: days since 1970-01-01; NaN for a row without a date."""
    if format_ in _TICKS_A_DAY:
        least = tf.int64.min
        ticks = dense_column(column, least)
        days = tf.cast(ticks, tf.float64) / _TICKS_A_DAY[format_]
        return tf.where(ticks == least, tf.constant(math.nan, tf.float64), days)
    pattern, order = _DATE_TEXTS[format_]
    texts = dense_column(column)
    readable = tf.strings.regex_full_match(texts, pattern)
    # Unreadable texts are replaced by a readable date so that parsing succeeds; they become NaN
    # below.
    texts = tf.where(readable, texts, tf.constant("1970-01-01" if order[0] == 1 else "01-01-1970"))
    parts = rf"\{order[0]} \{order[1]} \{order[2]} 0\4 0\5"
    digits = tf.strings.split(tf.strings.regex_replace(texts[:, 0], pattern, parts), " ")
    numbers = tf.strings.to_number(digits.to_tensor(shape=[None, 5]), tf.int64)
    year, month, day, hours, minutes = (numbers[:, at : at + 1] for at in range(5))
    clock = tf.cast(hours * 60 + minutes, tf.float64)
    date = _days_from_civil(year, month, day)
    # Without this check, 31 February would become a day in March.
    in_month = tf.equal(tf.cast(_month(date), tf.int64), month)
    real = readable & in_month & (day >= 1) & (day <= 31)
    days = tf.cast(date, tf.float64) + clock / 1440.0
    return tf.where(real, days, tf.constant(math.nan, tf.float64))


def _days_from_civil(year: tf.Tensor, month: tf.Tensor, day: tf.Tensor) -> tf.Tensor:
    """Returns the days since 1970-01-01 of a date in the Gregorian calendar.

    Years begin in March, so that leap days are at the end of a year.
    """
    year = tf.where(month <= 2, year - 1, year)
    months = tf.math.floormod(month + 9, 12)
    of_year = (153 * months + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + of_year - 719_468


def _month(days: tf.Tensor) -> tf.Tensor:
    """Returns the month, float32 1..12, for days since 1970-01-01."""
    of_era = tf.math.floormod(days + 719_468, 146_097)
    years = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * years + years // 4 - years // 100)
    months = (5 * of_year + 2) // 153
    return tf.cast(tf.where(months < 10, months + 3, months - 9), tf.float32)
