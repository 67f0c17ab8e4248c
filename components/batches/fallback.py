"""Leaves work that a node cannot do in whole batches to TFX's own executor, and logs the reason."""

import logging
from collections.abc import Mapping
from typing import Any

# Lists of artifacts by key; typed as Any, so that worker processes need not import TFX.
Artifacts = dict[str, list[Any]]

logger = logging.getLogger(__name__)

# Custom property of the output artifact: why TFDV's, TFT's or TFMA's own pipeline made the
# artifact; empty if it was made in batches.
FALLBACK_PROPERTY = "not_in_batches"


class NotInBatchesError(Exception):
    """Names a case that only TFMA's, TFT's or TFDV's own pipeline supports."""

    def __init__(self, what: str = "rows that are ragged, texts or without a value") -> None:
        super().__init__(what)


def refuse(reasons: Mapping[str, object]) -> None:
    """Raises NotInBatchesError with the names of all reasons that apply, if there are any."""
    if named := ", ".join(name for name, holds in reasons.items() if holds):
        raise NotInBatchesError(named)


class InBatches:
    """Mixin for TFX's executors: works in batches; if it cannot, logs why and works as TFX does."""

    told_at: str  # key of the output artifact that gets `FALLBACK_PROPERTY`
    work: str  # such as `in batches but by TFDV`; the log has `not {work}'s own pipeline`

    def in_batches(
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]
    ) -> None:
        """Does all the work in batches, or raises NotInBatchesError."""
        raise NotImplementedError

    def Do(  # noqa: N802, TFX's name
        self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]
    ) -> None:
        reason = ""
        try:
            self.in_batches(input_dict, output_dict, exec_properties)
        except NotInBatchesError as error:
            reason = str(error)
        [artifact] = output_dict[self.told_at]
        artifact.set_string_custom_property(FALLBACK_PROPERTY, reason)
        if reason:
            logger.info("not %s's own pipeline: %s", self.work, reason)
            super().Do(input_dict, output_dict, exec_properties)  # type: ignore[misc]
