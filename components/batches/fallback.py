"""What a node cannot do in whole batches is left to TFX's own executor, which is told why."""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # worker processes need not import TFX
    from tfx import types

logger = logging.getLogger(__name__)

# Custom property of the output artifact: why the library's own pipeline made it; empty if it did
# not.
FALLBACK_PROPERTY = "not_in_batches"


class NotInBatchesError(Exception):
    """Names a case that only TFMA's, TFT's or TFDV's own pipeline supports."""

    def __init__(self, what: str = "rows that are ragged, texts or without a value") -> None:
        super().__init__(what)


def named(reasons: Mapping[str, object]) -> str | None:
    """Returns the names of the reasons that hold, or None."""
    return ", ".join(name for name, holds in reasons.items() if holds) or None


def require(reason: str | None) -> None:
    if reason:
        raise NotInBatchesError(reason)


def in_batches_or_stock(
    in_batches: Callable[[], None], stock: Callable[[], None], artifact: "types.Artifact", name: str
) -> None:
    """Runs `in_batches`; if it raises NotInBatchesError, logs the reason and runs `stock`.

    `name` is the work and the library: `evaluated in batches but by TFMA`.
    """
    reason = ""
    try:
        in_batches()
    except NotInBatchesError as error:
        reason = str(error)
    artifact.set_string_custom_property(FALLBACK_PROPERTY, reason)
    if reason:
        logger.info("not %s's own pipeline: %s", name, reason)
        stock()
