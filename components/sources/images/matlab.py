"""A MATLAB file as nested Python values: mappings, lists, texts and numbers.

A struct is a mapping, a struct array a list of them, a cell array or a vector a list, a matrix a
list of its rows; what is empty is None. MATLAB's numbers are doubles: whole ones become int.
"""

from typing import Any

import numpy as np

from penstock.components.errors import DataError, UsageError, short_error
from penstock.components.files.content import open_data
from penstock.components.files.spool import local_path

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_USER_BLOCK_BYTES = 512  # MATLAB's own header stands before HDF5's


def is_matlab(head: bytes) -> bool:
    """Whether a file begins as MATLAB's v5 or v7.3 (HDF5) do; `head` is at least 1 KiB of it."""
    return head.startswith((b"MATLAB ", _HDF5_MAGIC)) or _is_hdf5(head)


def read_matlab(path: str) -> dict[str, object]:
    """All variables of a file.

    Raises:
        DataError: It is damaged.
        UsageError: SciPy or h5py is missing.
    """
    with open_data(path) as stream:
        head = stream.read(1024)
    read = _read_v73 if _is_hdf5(head) else _read_v5
    try:
        return read(local_path(path))
    except ImportError as error:
        raise UsageError(
            f'{path}: MATLAB files need {error.name}: pip install "penstock[images]"'
        ) from error
    except MemoryError:
        raise
    except DataError as error:
        raise DataError(f"{path}: {error}; save it anew with all data in it") from error
    except Exception as error:  # the readers raise a dozen kinds of them for damaged files
        reason = short_error(error, 120)
        raise DataError(f"{path}: damaged MATLAB file ({reason}); copy it again") from error


def _is_hdf5(head: bytes) -> bool:
    return _HDF5_MAGIC in (head[:8], head[_USER_BLOCK_BYTES : _USER_BLOCK_BYTES + 8])


def _read_v5(path: str) -> dict[str, object]:
    from scipy.io import loadmat

    variables = loadmat(path, squeeze_me=True)
    return {name: _plain(v) for name, v in variables.items() if not name.startswith("__")}


def _plain(value: Any) -> object:
    """What SciPy made of a value, without NumPy."""
    if isinstance(value, np.void) and value.dtype.names:
        return {name: _plain(value[name]) for name in value.dtype.names}
    if not isinstance(value, np.ndarray):
        return _number(value)
    if value.size == 0:
        return None
    if value.ndim == 0:
        return _plain(value.item() if value.dtype == object else value[()])
    if value.dtype.names or value.dtype == object:
        return [_plain(item) for item in value.ravel(order="F")]
    if value.dtype.kind == "U":
        return [text.rstrip() for text in value.tolist()]
    return _numbers(value)


def _read_v73(path: str) -> dict[str, object]:
    import h5py

    with h5py.File(path, "r") as file:
        # A link of another kind leads out of the file.
        hard = [n for n in file if isinstance(file.get(n, getlink=True), h5py.HardLink)]
        return {name: _from_hdf5(file[name], file) for name in hard if not name.startswith("#")}


def _from_hdf5(node: Any, file: Any) -> object:
    import h5py

    if isinstance(node, h5py.Group):
        return _struct(node, file)
    kind = node.attrs.get("MATLAB_class", b"")
    if node.attrs.get("MATLAB_empty", 0):
        return None
    if node.external or node.is_virtual:  # any file of this machine, which h5py would read
        raise DataError(f"{node.name} has its data in another file")
    values = node[()]
    if node.dtype == h5py.ref_dtype:
        return [_from_hdf5(file[one], file) for one in values.T.ravel(order="F")]
    if kind == b"char":
        return "".join(map(chr, values.T.ravel()))
    return _numbers(np.squeeze(values.T))


def _struct(group: Any, file: Any) -> object:
    """A struct; or a struct array, whose fields are references without a class of their own."""
    import h5py

    hard = [name for name in group if isinstance(group.get(name, getlink=True), h5py.HardLink)]
    fields = {name: group[name] for name in hard}
    is_array = fields and all(
        isinstance(field, h5py.Dataset)
        and field.dtype == h5py.ref_dtype
        and "MATLAB_class" not in field.attrs
        for field in fields.values()
    )
    values = {name: _from_hdf5(field, file) for name, field in fields.items()}
    if not is_array:
        return values
    columns: list[Any] = list(values.values())
    return [dict(zip(values, row, strict=True)) for row in zip(*columns, strict=True)]


def _numbers(array: Any) -> object:
    if array.ndim == 0:
        return _number(array[()])
    if array.dtype.kind == "f" and (np.floor(array) == array).all() and _is_exact(array):
        array = array.astype(np.int64)
    return array.tolist()


def _number(value: Any) -> object:
    plain = value.item() if isinstance(value, np.generic) else value
    whole = isinstance(plain, float) and plain.is_integer() and _is_exact(plain)
    return int(plain) if whole else plain


def _is_exact(numbers: Any) -> bool:
    """Whether doubles hold every whole number up to these."""
    return bool(np.abs(numbers).max() < 2**53)
