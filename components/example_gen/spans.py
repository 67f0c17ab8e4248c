"""Finds the spans of data, and the newest one, at paths and addresses with TFX's placeholders.

In a path or an address, `{SPAN}`, `{VERSION}` and `{YYYY}-{MM}-{DD}` stand for the parts that
differ between deliveries of the data. The placeholders are resolved by TFX's rules, in paths and in
`s3://` and `gs://` addresses.
"""

import glob
import re

from tfx import types
from tfx.components.example_gen import input_processor, utils
from tfx.dsl.input_resolution.strategies.span_range_strategy import SpanRangeStrategy
from tfx.proto import example_gen_pb2

from penstock.components.errors import DataError, UsageError
from penstock.components.files.address import scheme_of
from penstock.components.files.remote import find_names, normal_address

_SPAN = re.compile(r"\{(SPAN(:\d+)?|YYYY)\}")
_NOT_LISTED = ("http", "https")


def has_span(text: str) -> bool:
    return _SPAN.search(text) is not None


def split_span_address(address: str) -> tuple[str, str]:
    """Splits an address into the folder above the first placeholder, and the rest as a pattern."""
    found = _SPAN.search(address)
    folder, _, name = address[: found.start() if found else 0].rpartition("/")
    if found is None or not folder:
        raise UsageError(
            f"{address!r}: expected a folder, and below it {{SPAN}}, or {{YYYY}}, {{MM}} and "
            "{DD}, as in gs://bucket/trips/{YYYY}-{MM}-{DD}/*.csv"
        )
    return folder, name + address[found.start() :]


class Spans(input_processor.FileBasedInputProcessor):
    """Finds the newest span and version at paths and addresses, without TensorFlow's file I/O."""

    def resolve_span_and_version(self) -> tuple[int, int | None]:
        if scheme_of(self._input_base_uri) in _NOT_LISTED:
            raise UsageError(
                f"{self._input_base_uri}: spans are found on paths and at s3 and gs "
                "addresses; http has no listing"
            )
        found = {self._newest(split) for split in self._splits}
        if len(found) > 1:
            raise DataError(
                f"{self._input_base_uri}: the splits have different newest spans or versions: "
                f"{sorted(found, key=str)}"
            )
        return found.pop()

    def get_input_fingerprint(self, span: int, version: int | None) -> None:
        """Returns None: `ContentDriver` computes the fingerprint from file contents."""

    def _newest(self, split: example_gen_pb2.Input.Split) -> tuple[int, int | None]:
        if not any(self._specs):
            return 0, None
        spans = self.listed(split)
        if not spans:
            raise DataError(f"{self._input_base_uri}/{split.pattern}: {self._none_there()}")
        newest: tuple[int, int | None] = max(spans, key=lambda one: (one[0], one[1] or 0))
        return newest

    @property
    def _specs(self) -> tuple[bool, bool, bool]:
        return self._is_match_span, self._is_match_date, self._is_match_version

    def _none_there(self) -> str:
        if self._range_config and self._range_config.HasField("static_range"):
            return f"span {self._range_config.static_range.start_span_number} is not there"
        return "no span is there"

    def listed(self, split: example_gen_pb2.Input.Split) -> list[tuple[int, int | None]]:
        """Returns span and version of each file or folder that matches the pattern of a split."""
        specs = self._specs
        base = self._input_base_uri
        is_path = scheme_of(base) is None
        pattern, regex = utils._create_matching_glob_and_regex(
            base if is_path else normal_address(base), split, *specs, self._range_config
        )
        spans = []
        for name in glob.glob(pattern) if is_path else find_names(pattern):
            try:
                match = utils._find_matched_span_version_from_path(name, regex, *specs)
            except ValueError as error:
                raise DataError(f"{name}: not named as {split.pattern} says ({error})") from error
            spans.append((match[1], match[3]))
        return spans


def spans_at(address: str) -> set[int]:
    """Returns the numbers of all spans at an address with placeholders, such as `{SPAN}`."""
    folder, pattern = split_span_address(address)
    split = example_gen_pb2.Input.Split(name="data", pattern=pattern)
    return {span for span, _ in Spans(folder, [split], None).listed(split)}


class LatestSpansStrategy(SpanRangeStrategy):
    """Variant of TFX's SpanRangeStrategy that returns only the newest Examples of each span.

    TFX's strategy returns all Examples that were ever made for a span. If a span has a new version,
    or was ingested again with other options, a model would therefore be trained twice on the same
    rows.

    Use:
        Resolver(
            strategy_class=LatestSpansStrategy,
            config={"range_config": RangeConfig(rolling_range=RollingRange(num_spans=3))},
            examples=Channel(type=Examples, producer_component_id=example_gen.id),
        )
    """

    def resolve_artifacts(
        self, store: object, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]] | None:
        """Reduces each list of Examples to one per span, newest span first."""
        resolved = super().resolve_artifacts(store, input_dict)
        return resolved and {key: _newest_of_each(found) for key, found in resolved.items()}


def _newest_of_each(artifacts: list[types.Artifact]) -> list[types.Artifact]:
    newest: dict[int, types.Artifact] = {}
    for artifact in artifacts:
        span = artifact.get_int_custom_property(utils.SPAN_PROPERTY_NAME)
        if span not in newest or artifact.id > newest[span].id:
            newest[span] = artifact
    return list(newest.values())
