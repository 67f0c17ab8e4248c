"""Facts of a packed training input, as `input_facts` gives for row Examples."""

from penstock.components.trainer.input.facts import facts_of
from penstock.components.trainer.input.files import InputSource
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.input.packed_files import find_packed
from penstock.components.trainer.utilisation.record import InputFacts


def packed_input_facts(
    source: InputSource, *, options: InputOptions, split: str = "train"
) -> InputFacts:
    """The facts of what `packed_train_input_fn` reads with the same arguments.

    Raises:
        DataError: There is nothing to read, or a shard differs from its manifest.
    """
    found, layout = find_packed(source, split=split)
    fixed_length = not any(column.storage == "list" for column in layout.columns)
    return facts_of(
        found, options, "packed", columns=len(layout.columns), fixed_length=fixed_length
    )
