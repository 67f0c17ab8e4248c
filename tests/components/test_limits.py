"""Checks of the ranges and choices of options, with the error messages of all option classes."""

from dataclasses import dataclass

import numpy as np
import pytest

from penstock.components.errors import UsageError
from penstock.components.example_gen.options import Split, SplitOptions
from penstock.components.gates.options import (
    GateOptions,
    ImageRules,
    KServeOptions,
    RegisterOptions,
    RetrainOptions,
    ServingOptions,
)
from penstock.components.limits import check_choices, check_numbers
from penstock.components.packing.options import PackOptions
from penstock.components.sources.binary import Binary
from penstock.components.sources.images.options import Images
from penstock.components.sources.options import Table
from penstock.components.sources.plain_text import Text
from penstock.components.sources.sql.options import Sql
from penstock.components.trainer.input.options import ImageInputOptions, InputOptions
from penstock.components.trainer.options import EarlyStop, TrainOptions


@dataclass(frozen=True)
class Options:
    rows: int = 1
    workers: int | None = None
    share: float = 0.5
    compression: str = ""

    def __post_init__(self):
        check_numbers(self, rows=(1, 8), workers=1, share=0.0)
        check_choices(self, compression=("", "GZIP"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rows": 9}, "`rows` must be within 1..8, got 9"),
        ({"rows": 2.0}, "`rows` must be a whole number, got 2.0"),
        ({"rows": True}, "`rows` must be a whole number, got True"),
        ({"rows": None}, "`rows` must be a whole number, got None"),
        ({"workers": 0}, "`workers` must be at least 1, got 0"),
        ({"share": float("nan")}, "`share` must be at least 0, got nan"),
        ({"share": "1"}, "`share` must be a number, got '1'"),
        ({"compression": "ZIP"}, "`compression` must be one of '', GZIP, got 'ZIP'"),
    ],
)
def test_option_outside_its_limits_is_refused(values, message):
    with pytest.raises(UsageError) as error:
        Options(**values)
    assert str(error.value) == message


def test_option_within_its_limits_is_accepted():
    assert Options(rows=np.int64(8), workers=None, share=1, compression="GZIP").rows == 8


IMAGES = {"batch_size": 5, "height": 2, "width": 2}


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (Table, {"kind": "json"}, "`kind` must be one of csv, parquet, arrow, orc, jsonl, avro"),
        (Table, {"non_finite": "drop"}, "`non_finite` must be one of reject, null, keep"),
        (Table, {"extra_columns": "keep"}, "`extra_columns` must be one of reject, drop"),
        (Table, {"delimiter": ""}, "`delimiter` must be one ASCII character"),
        (Table, {"delimiter": "||"}, "`delimiter` must be one ASCII character"),
        (Table, {"sample_rows": 0}, "`sample_rows` must be at least 1, got 0"),
        (Table, {"max_row_bytes": 2**31}, "`max_row_bytes` must be within 1..1073741824"),
        (Table, {"null_tokens": "NA"}, "`null_tokens` must be a list of strings, got 'NA'"),
        (Table, {"column_names": [1]}, "`column_names` must be a list of strings, got [1]"),
        (Table, {"column_names": ["a", "a"]}, "`column_names` must be different and not blank"),
        (Table, {"allow_empty": "no"}, "`allow_empty` must be true or false, got 'no'"),
        (Sql, {"query": "x", "table": "t"}, "`query` and `table` are both given; give one of"),
        (Sql, {"table": "t", "params": ("a=1",)}, "`params` need a query, but a table is given"),
        (Sql, {"params": ("secret",)}, "`params` must be name=value each"),
        (Sql, {"params": ("a=1", "a=2")}, "`params` name 'a' twice; give it one value"),
        (Text, {"unit": "word"}, "`unit` must be one of line, document"),
        (Text, {"encoding": "utf-99"}, "`encoding` must be one that Python knows"),
        (Text, {"encoding": "utf-16"}, "`encoding` must leave ASCII bytes as they are"),
        (Text, {"encoding": "rot13"}, "`encoding` must be one that Python knows"),
        (Text, {"max_row_bytes": 2**31}, "`max_row_bytes` must be within 1..1073741824"),
        (Text, {"folder_label": True}, "`folder_label` applies to documents"),
        (Text, {"unit": "document", "skip_blank": False}, "`skip_blank` applies to lines"),
        (Binary, {"max_mib": 1025}, "`max_mib` must be within 1..1024, got 1025"),
        (Images, {"layout": "raw"}, "`layout` must be one of bytes, resized, decoded, got 'raw'"),
        (Images, {"layout": "resized"}, "`layout='resized'` needs a size in pixels, as `size=299`"),
        (Images, {"size": 299}, "`size` needs `layout='resized'` or 'decoded'; 'bytes' keeps"),
        (Images, {"layout": "decoded", "size": 20_000}, "`size` must be at most the root of `max"),
        (Images, {"channels": 4}, "`channels` must be 1 or 3, got 4"),
        (Images, {"jpeg_quality": 101}, "`jpeg_quality` must be within 1..100, got 101"),
        (Images, {"max_pixels": 10**9}, "`max_pixels` must be within 1..178956970, got 1000000000"),
        (Images, {"alpha": "red"}, "`alpha` must be one of white, black, drop, got 'red'"),
        (Images, {"fit": "zoom"}, "`fit` must be one of crop, pad, stretch, shortest, got 'zoom'"),
        (Images, {"verify": "all"}, "`verify` must be one of header, decode, got 'all'"),
        (Images, {"text_column": "x"}, "`text_column` needs a label file; give `labels_file` as"),
        (Images, {"shuffle_seed": -1}, "`shuffle_seed` must be at least 0, got -1"),
        (Split, {"name": "train", "hash_buckets": 0}, "'train': `hash_buckets` must be at least"),
        (SplitOptions, {"splits": (Split("a"), Split("a"))}, "distinct names, got ['a', 'a']"),
        (PackOptions, {"seed": -1}, "`seed` must be within 0..2^63-1, got -1"),
        (PackOptions, {"columns": ("a",), "ids": ("b",)}, "column 'b' is not among the columns to"),
        (TrainOptions, {"max_steps": 0}, "`max_steps` must be at least 1, got 0"),
        (
            TrainOptions,
            {"max_steps": 9, "checkpoint_every_seconds": 0},
            "checkpoint_every_seconds must be greater than 0, got 0",
        ),
        (TrainOptions, {}, "give either max_steps or epochs, got max_steps=None and epochs=None"),
        (TrainOptions, {"epochs": 2}, "epochs needs steps_per_epoch"),
        (EarlyStop, {"mode": "auto"}, "`mode` must be one of min, max, got 'auto'"),
        (InputOptions, {"batch_size": 1.5}, "`batch_size` must be a whole number, got 1.5"),
        (InputOptions, {"batch_size": 8, "cache": "disk"}, "`cache` must be one of none, memory,"),
        (InputOptions, {"batch_size": 8, "seed": 2**63}, "seed must be a 64-bit integer or None"),
        (ImageInputOptions, {**IMAGES, "channels": 4}, "`channels` must be one of 1, 3, got 4"),
        (GateOptions, {"max_drift": 1.5}, "`max_drift` must be within 0..1, got 1.5"),
        (RetrainOptions, {"new_rows": -1}, "`new_rows` must be at least 0, got -1"),
        (ImageRules, {"min_side_pixels": 0}, "`min_side_pixels` must be at least 1, got 0"),
        (ServingOptions, {"requests": 0}, "`requests` must be at least 1, got 0"),
        (KServeOptions, {"canary_percent": 0}, "`canary_percent` must be within 1..100, got 0"),
        (KServeOptions, {"name": "A b"}, "kserve.name must be a name in Kubernetes, got 'A b'"),
        (RegisterOptions, {"name": "churn"}, "set uri and name, both or neither"),
    ],
)
def test_value_outside_its_range_is_named(kind, values, message):
    with pytest.raises(UsageError) as refused:
        kind(**values)
    assert message in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "total_steps", "epoch_steps"),
    [
        ({"max_steps": 10}, 10, 10),
        ({"max_steps": 10, "steps_per_epoch": 4}, 10, 4),
        ({"max_steps": 3, "steps_per_epoch": 4}, 3, 3),
        ({"epochs": 3, "steps_per_epoch": 4}, 12, 4),
    ],
)
def test_steps_and_epochs_follow_from_each_other(options, total_steps, epoch_steps):
    options = TrainOptions(**options)
    assert (options.total_steps, options.epoch_steps) == (total_steps, epoch_steps)


def test_parameters_are_split_at_the_first_equals_sign():
    assert Sql(query="x", params=("a=b=c", "d=")).bound_params() == {"a": "b=c", "d": ""}
