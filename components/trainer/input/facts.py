"""Facts of a training input, gathered before training as evidence for its verdict."""

from collections.abc import Mapping

import tensorflow as tf

from penstock.components.tfrecord.feature_spec import FeatureSpec
from penstock.components.tfrecord.sharding import MIB
from penstock.components.trainer.input.files import InputFiles, InputSource, find_input
from penstock.components.trainer.input.options import InputOptions, ReadOptions
from penstock.components.trainer.utilisation.record import InputFacts


def input_facts(
    source: InputSource,
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
    fixed_length = not any(not isinstance(f, tf.io.FixedLenFeature) for f in spec.values())
    return facts_of(found, options, "rows", columns=len(spec), fixed_length=fixed_length)


def facts_of(
    found: InputFiles, options: ReadOptions, kind: str, *, columns: int, fixed_length: bool
) -> InputFacts:
    """The facts of files that were found and of how they are read, for an input of any kind."""
    return InputFacts(
        kind=kind,
        files=len(found.files),
        rows=found.rows,
        stored_mib=sum(found.sizes) / MIB,
        compressed=any(found.compressions),
        columns=columns,
        fixed_length=fixed_length,
        batch_rows=options.batch_size,
        interleave_files=options.interleave_files,
        prefetch_batches=options.prefetch_batches,
        cache=options.cache,
        private_threads=options.private_threads,
    )
