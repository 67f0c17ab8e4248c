"""The JSON records of a ModelRun as files: each appears whole, or not at all."""

import posixpath

from penstock.components.errors import DataError


def write_record(path: str, text: str) -> None:
    """Write a record's text in one step, its folder made where there is none."""
    import tensorflow as tf

    tf.io.gfile.makedirs(posixpath.dirname(path))
    temporary = f"{path}.tmp"
    with tf.io.gfile.GFile(temporary, "w") as file:
        file.write(text)
    tf.io.gfile.rename(temporary, path, overwrite=True)


def read_record(path: str) -> str:
    """Read a record's text.

    Raises:
        DataError: There is none.
    """
    import tensorflow as tf

    try:
        with tf.io.gfile.GFile(path) as file:
            return file.read()
    except tf.errors.NotFoundError as error:
        directory, name = posixpath.split(path)
        raise DataError(f"{directory}: no {name}; the training did not end") from error
