"""What a packed training input reads, and how: as `input_facts` says of row Examples."""

import tensorflow as tf

from penstock.components.trainer.input_config import InputOptions
from penstock.components.trainer.input_files import Source
from penstock.components.trainer.packed_files import find_packed
from penstock.components.trainer.utilisation import InputFacts

_MIB = 1 << 20


def packed_input_facts(
    source: Source, *, options: InputOptions, split: str = "train"
) -> InputFacts:
    """The facts of what `packed_train_input_fn` reads with the same arguments.

    Raises:
        DataError: There is nothing to read, or a shard differs from its manifest.
    """
    found, layout = find_packed(source, split=split)
    stored = sum(tf.io.gfile.stat(file).length for file in found.files)
    return InputFacts(
        kind="packed",
        files=len(found.files),
        rows=found.rows,
        stored_mib=stored / _MIB,
        compressed=False,
        columns=len(layout.columns),
        fixed_length=not any(column.storage == "list" for column in layout.columns),
        batch_rows=options.batch_size,
        interleave_files=options.interleave_files,
        prefetch_batches=options.prefetch_batches,
        cache=options.cache,
        private_threads=options.private_threads,
    )
