"""How the tasks of a scan are done: one after the other here, or by the processes of an engine."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Spread(Protocol):
    """Does the tasks of a scan."""

    def __call__(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], input_bytes: int
    ) -> list[Result]:
        """What `work` gives for each task, in order.

        Args:
            work: Picklable, as are tasks and results.
            tasks: What it is called with.
            input_bytes: How much there is to read in all.

        Raises:
            DataError: That of a task.
        """
        ...


def here(work: Callable[[Task], Result], tasks: Sequence[Task], input_bytes: int) -> list[Result]:
    """In this process."""
    del input_bytes
    return [work(task) for task in tasks]
