"""Returns free memory to the system; keeps imported objects out of garbage collection."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def release_memory() -> None:
    """Returns the memory of young garbage and free blocks: 30 to 110 MiB, in up to 0.1 s of CPU."""
    gc.collect(1)
    with suppress(AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def imports_that_stay() -> Iterator[None]:
    """Spares the objects that imports in the block create any search for garbage, also at exit.

    For imports of libraries: they create a million objects that stay. In a run of taxi this saves
    0.3 s of CPU at the imports and 2.3 s at the end of the process. A file that a frozen module
    left open in a cycle of objects would not be flushed, so no user's module may be among them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
