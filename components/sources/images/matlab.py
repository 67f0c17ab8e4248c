"""Reads labels from a MATLAB file that was saved with the option '-v6' or '-v7'.

A struct becomes a mapping, and a struct array becomes a list of mappings. Cell arrays and vectors
become lists, a matrix becomes a list of its rows, and an empty value becomes None. MATLAB's numbers
are doubles; whole numbers become int.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.components.errors import DataError, UsageError, short_error
from penstock.components.files.spool import local_path
from penstock.components.sources.schema import shown

MAGIC = b"MATLAB "


def read_matlab(path: str) -> dict[str, object]:
    """Returns all variables; raises DataError if the file is damaged or of version 7.3 (HDF5)."""
    try:
        from scipy.io import loadmat

        variables = loadmat(local_path(path), simplify_cells=True)
    except ImportError as error:
        raise UsageError(
            f'{path}: MATLAB files need {error.name}: pip install "penstock-tfx[images]"'
        ) from error
    except NotImplementedError as error:
        raise DataError(
            f"{path}: is a MATLAB file of version 7.3 (HDF5), which is not read; save it with "
            "save(..., '-v7'), or write the labels as CSV"
        ) from error
    except MemoryError:
        raise
    except Exception as error:  # SciPy raises a dozen types of errors for damaged files.
        reason = short_error(error, 120)
        raise DataError(f"{path}: damaged MATLAB file ({reason}); copy it again") from error
    return {name: _plain(v) for name, v in variables.items() if not name.startswith("__")}


def label_rows(path: str, variable: str | None) -> list[Mapping[str, object]]:
    """Returns the rows of the struct array `variable`, or rows made from vectors if it is None.

    The longest vectors are the columns; shorter ones, such as names of classes, are left out.
    """
    variables = read_matlab(path)
    if variable is not None:
        value: Any = variables.get(variable)
        rows = value if isinstance(value, list) else [value]  # a single struct is a mapping
    else:
        vectors = {name: value for name, value in variables.items() if isinstance(value, list)}
        length = max(map(len, vectors.values()), default=0)
        columns = {name: value for name, value in vectors.items() if len(value) == length}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    values = [value for row in rows if isinstance(row, Mapping) for value in row.values()]
    if not values or any(isinstance(value, Mapping) for value in values):
        raise DataError(
            f"{path}: expected vectors with a value for each image; it has {shown(variables)}; "
            "name the struct array with `labels_variable`"
        )
    return rows


def _plain(value: Any) -> object:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    if isinstance(value, (list, np.ndarray)):
        return [_plain(one) for one in value] if len(value) else None
    if isinstance(value, np.str_):  # MATLAB pads the texts of an array to one length.
        return str(value).rstrip()
    plain = value.item() if isinstance(value, np.generic) else value
    whole = isinstance(plain, float) and plain.is_integer() and abs(plain) < 2**53
    return int(plain) if whole else plain
