"""The driver of `ShardedExampleGen`: spans and versions by TFX, the cache key by content.

TFX's own key is each file's size and time stamp in whole seconds, so an edit that keeps
both is served from the cache.
"""

import hashlib
import os
from typing import Any

from tfx.components.example_gen import driver, utils
from tfx.orchestration import data_types

from penstock.components.example_gen.node_options import NodeOptions, node_inputs
from penstock.components.sources.listing import list_files
from penstock.components.sources.open import open_source
from penstock.components.sources.options import SourceOptions

_BLOCK_BYTES = 2**20


class ContentDriver(driver.FileBasedDriver):
    """Resolves the span and version, and puts a digest of all content into the cache key."""

    def resolve_exec_properties(
        self,
        exec_properties: dict[str, Any],
        pipeline_info: data_types.PipelineInfo,
        component_info: data_types.ComponentInfo,
    ) -> dict[str, Any]:
        """Fill in span, version and fingerprint.

        Raises:
            DataError: A pattern matches no file.
        """
        properties = super().resolve_exec_properties(exec_properties, pipeline_info, component_info)
        properties[utils.FINGERPRINT_PROPERTY_NAME] = _fingerprint(properties)
        return properties


def _fingerprint(properties: dict[str, Any]) -> str:
    """Digest of the name and content of all that decides the output."""
    source = NodeOptions.from_properties(properties).source
    schema_file = getattr(source, "schema_file", None)
    digest = hashlib.sha256()
    for file in [schema_file] if schema_file else []:
        _add_file(digest, file)
    for part in node_inputs(properties):
        if isinstance(source, SourceOptions):
            for file in list_files(part.pattern, source.kind).files:
                _add_file(digest, file)
        else:
            digest.update(open_source(part.pattern, source).fingerprint.encode())
    return digest.hexdigest()


def _add_file(digest: "hashlib._Hash", file: str) -> None:
    digest.update(os.fsencode(f"{file}\0{_content_digest(file)}\n"))


def _content_digest(file: str) -> str:
    digest = hashlib.sha256()
    with open(file, "rb") as content:
        while block := content.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
