"""Checks that artifacts are unchanged, before a node or the cache uses them.

TFX checks only that an artifact's path exists. Here, Examples must match their manifest, and a
pushed model must be the served one. A changed input fails its node, even if the cache could serve
the node. A node with a changed output is not served from the cache: it runs again.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tfx import types
from tfx.orchestration.portable import cache_utils, inputs_utils
from tfx.orchestration.portable.input_resolution import exceptions

from penstock.components.errors import DataError
from penstock.components.gates.served_model import check_served
from penstock.components.tfrecord.checked import check_folder
from penstock.components.tfrecord.manifest import MANIFEST_PROPERTY
from penstock.pipelines.runs.row_check import rows_held, states_rows

logger = logging.getLogger(__name__)

_Artifacts = Mapping[str, Sequence[types.Artifact]]


class DamagedInputError(exceptions.InputResolutionError):
    """An input has changed since it was written; TFX records the node as failed with this error."""


@contextmanager
def artifacts_checked() -> Iterator[None]:
    """Checks what nodes read and what the cache serves in the block; TFX has no hook for it."""
    resolve, reuse = inputs_utils.resolve_input_artifacts, cache_utils.get_cached_outputs

    def whole_inputs(*args: Any, **kwargs: Any) -> Any:
        resolved = resolve(*args, **kwargs)
        try:
            for inputs in resolved:
                _check_examples(inputs)
        except DataError as error:
            raise DamagedInputError(
                f"{error}; restore it, or run again: the cache does not serve it"
            ) from error
        return resolved

    def whole_outputs(*args: Any, **kwargs: Any) -> Any:
        outputs = reuse(*args, **kwargs)
        if not all(states_rows(a) for several in (outputs or {}).values() for a in several):
            logger.info("not taken from the cache: made by a version that counted no rows")
            return None
        try:
            _check_examples(outputs or {})
            _check_pushed(outputs or {})
        except DataError as error:
            logger.warning("not taken from the cache: %s", error)
            return None
        return outputs

    inputs_utils.resolve_input_artifacts = whole_inputs
    cache_utils.get_cached_outputs = whole_outputs
    try:
        with rows_held():
            yield
    finally:
        inputs_utils.resolve_input_artifacts = resolve
        cache_utils.get_cached_outputs = reuse


def _check_examples(artifacts: _Artifacts) -> None:
    for artifact in _of_type(artifacts, "Examples"):
        check_folder(artifact.uri, artifact.get_string_custom_property(MANIFEST_PROPERTY))


def _check_pushed(artifacts: _Artifacts) -> None:
    for artifact in _of_type(artifacts, "PushedModel"):
        check_served(artifact)


def _of_type(artifacts: _Artifacts, type_name: str) -> Iterator[types.Artifact]:
    for several in artifacts.values():
        yield from (artifact for artifact in several if artifact.type_name == type_name)
