import json

import pytest

from penstock.components.errors import UsageError
from penstock.components.sources.images.options import Images
from penstock.components.sources.kinds import options_from_json, options_to_json


def test_options_travel_as_json():
    options = Images(labels_file="cars.mat", layout="resized", size=299)
    assert options_from_json(json.loads(json.dumps(options_to_json(options)))) == options


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"layout": "raw"}, "`layout` must be one of bytes, resized, decoded, got 'raw'"),
        ({"layout": "resized"}, "`layout='resized'` needs a size in pixels, as `size=299`"),
        ({"size": 299}, "`size` needs `layout='resized'` or 'decoded'; 'bytes' keeps files"),
        (
            {"layout": "decoded", "size": 20_000},
            "`size` must be at most the root of `max_pixels` 89478485, got 20000",
        ),
        ({"channels": 4}, "`channels` must be 1 or 3, got 4"),
        ({"jpeg_quality": 101}, "`jpeg_quality` must be within 1..100, got 101"),
        ({"max_pixels": 10**9}, "`max_pixels` must be within 1..178956970, got 1000000000"),
        ({"alpha": "red"}, "`alpha` must be one of white, black, drop, got 'red'"),
        ({"fit": "zoom"}, "`fit` must be one of crop, pad, stretch, shortest, got 'zoom'"),
        ({"verify": "all"}, "`verify` must be one of header, decode, got 'all'"),
        ({"text_column": "x"}, "`text_column` needs a label file; give `labels_file` as well"),
        ({"shuffle_seed": -1}, "`shuffle_seed` must be at least 0, got -1"),
    ],
)
def test_bad_values_are_named(values, message):
    with pytest.raises(UsageError) as error:
        Images(**values)
    assert str(error.value) == message
