"""What a training input reads, and how: gathered before training, as evidence for its verdict."""

from collections.abc import Mapping

import tensorflow as tf

from penstock.components.trainer.feature_spec import FeatureSpec
from penstock.components.trainer.input_config import InputOptions
from penstock.components.trainer.input_files import Source, find_input
from penstock.components.trainer.utilisation import InputFacts

_MIB = 1 << 20


def input_facts(
    source: Source,
    spec: Mapping[str, FeatureSpec],
    *,
    options: InputOptions,
    split: str = "train",
) -> InputFacts:
    """The facts of what `train_input_fn` reads with the same arguments.

    Args:
        source: Files, patterns or a folder with a manifest.
        spec: What is parsed.
        options: How it is read.
        split: The split to take from a manifest.

    Raises:
        DataError: Nothing matches, or a shard differs from its manifest.
    """
    found = find_input(source, split=split)
    stored = sum(tf.io.gfile.stat(file).length for file in found.files)
    return InputFacts(
        kind="rows",
        files=len(found.files),
        rows=found.rows,
        stored_mib=stored / _MIB,
        compressed=any(found.compressions),
        columns=len(spec),
        fixed_length=not any(isinstance(f, tf.io.VarLenFeature) for f in spec.values()),
        batch_rows=options.batch_size,
        interleave_files=options.interleave_files,
        prefetch_batches=options.prefetch_batches,
        cache=options.cache,
        private_threads=options.private_threads,
    )
