"""Options of gates, serving check and pushes; a decorator for nodes that take such options.

This module has no heavy imports.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal, TypedDict, cast

from penstock.components.errors import UsageError
from penstock.components.limits import check_numbers
from penstock.components.plain import to_json
from penstock.components.tfrecord.manifest import MAX_QUARANTINED_SHARE

_KUBERNETES_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")

# Signature of an exported model that takes transformed features, for ServingCheck.
PREDICT_FEATURES = "predict_features"


class Verdict(TypedDict):
    """Output of a gate: its findings, as JSON."""

    verdict: str


def options_component(kind: type) -> Callable[[Callable[..., Any]], Any]:
    """Makes a TFX component from a function with a parameter `options: Parameter[str]`.

    The component takes `options` as an instance of the dataclass `kind`, or None for its defaults;
    the function gets them as JSON, for `plain.from_json`. So each option is declared only in the
    dataclass, and is part of the node's cache key.
    """
    from tfx.dsl.component.experimental.decorators import component

    def decorate(function: Callable[..., Any]) -> Any:
        node: Any = component(cast(FunctionType, function))
        make = node.__init__

        def __init__(self: Any, *, options: Any = None, **channels: Any) -> None:  # noqa: N807
            make(self, options=to_json(kind() if options is None else options), **channels)

        node.__init__ = __init__
        return node

    return decorate


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """Limits of the `ValidationGate`.

    Attributes:
        labels: Raw features that labels are made from; each must have a value in every row, and at
            least two different values in each split.
        max_quarantined_share: Maximum share of quarantined rows among the rows that are not blank,
            0..1.
        max_label_share: Maximum share of rows with the same label, 0..1; 1 sets no limit. For
            fractions, and whole numbers with a range of ten or more, only the label 0 is counted.
        max_drift: Maximum distance, 0..1, between a feature in a split and in the same split of the
            baseline, as in `drift.py`; 1 sets no limit. For numbers, noise alone may reach 0.1, so
            try 0.2.
        max_skew: Maximum distance, 0..1, between a feature in a split and in the first split; 1
            sets no limit.
        leakage: Treatment of signs of leakage in a sample (a feature that gives a label away, rows
            or ids in two splits): `tell` reports them, `stop` stops the run, `off` omits the check.
        left_out: Raw features that the model does not get, so that they cannot leak.
        group: Raw feature by which the splits are grouped, so that equal values are all in one
            split.

    Raises:
        UsageError: A share or a distance is not within 0..1.
    """

    labels: tuple[str, ...] = ()
    max_quarantined_share: float = MAX_QUARANTINED_SHARE
    max_label_share: float = 1.0
    max_drift: float = 1.0
    max_skew: float = 1.0
    leakage: Literal["tell", "stop", "off"] = "tell"
    left_out: tuple[str, ...] = ()
    group: str | None = None

    def __post_init__(self) -> None:
        shares = ("max_quarantined_share", "max_label_share", "max_drift", "max_skew")
        check_numbers(self, **dict.fromkeys(shares, (0.0, 1.0)))


@dataclass(frozen=True, kw_only=True)
class RetrainOptions:
    """Limits of the `RetrainGate`: a run retrains if one of them is reached, or if none is set.

    Attributes:
        drift: A run retrains above this distance, 0..1, between a feature in a split and in the
            data of the last blessed model (as in `GateOptions.max_drift`); 1 ignores drift.
        new_rows: A run retrains if the data has grown by at least this number of rows with all
            labels; 0 ignores new rows.
        age_days: A run retrains if at least this number of days has passed since the data of the
            last blessed model was read; 0 ignores age.
        labels: Raw features that labels are made from; only rows that have all of them count as new
            rows.
        ignored: Raw features whose drift does not count, such as times and ids.
        by_span: Whether each run reads a span of its own, so that all its rows are new.
        today: Number of the current day, which is part of the cache key so that no cached answer is
            older than a day; 0 without `age_days`.

    Raises:
        UsageError: A number is outside its range.
    """

    drift: float = 1.0
    new_rows: int = 0
    age_days: float = 0.0
    labels: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    by_span: bool = False
    today: int = 0

    def __post_init__(self) -> None:
        check_numbers(self, drift=(0.0, 1.0), new_rows=0, age_days=0.0)

    @property
    def is_set(self) -> bool:
        return self.drift < 1 or self.new_rows > 0 or self.age_days > 0


@dataclass(frozen=True, kw_only=True)
class ImageRules:
    """Limits of the `ImageGate`.

    Copies with different classes, and images without a class, always fail.

    Attributes:
        min_side_pixels: Minimum height and width.
        channels: Allowed numbers of channels.
        min_class_images: Minimum number of images of each class in each split.
        max_class_imbalance: Maximum ratio between the numbers of images of two classes in a split;
            0 sets no limit.
        max_duplicate_share: Maximum share of images that are copies of others, 0..1.
        max_shared_images: Maximum number of images that two splits may share.

    Raises:
        UsageError: A value is outside its range.
    """

    min_side_pixels: int = 1
    channels: tuple[int, ...] = (1, 3)
    min_class_images: int = 1
    max_class_imbalance: float = 0.0
    max_duplicate_share: float = 0.05
    max_shared_images: int = 0

    def __post_init__(self) -> None:
        check_numbers(self, min_side_pixels=1, min_class_images=1, max_shared_images=0)
        check_numbers(self, max_class_imbalance=0.0, max_duplicate_share=(0.0, 1.0))


@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """Requests that the `ServingCheck` sends to a model, and limits for the answers.

    Attributes:
        split: Split of the Examples from which the requests are taken.
        signature: Signature to query.
        requests: Maximum number of rows to send, one per request.
        max_p99_ms: Maximum latency of 99 of 100 requests, in milliseconds; 0 sets no limit.
        max_skew: Maximum difference, relative for values above 1, between an answer and the model's
            prediction for the same row as it is transformed for training.

    Raises:
        UsageError: A number is outside its range.
    """

    split: str = "eval"
    signature: str = "serving_default"
    requests: int = 200
    max_p99_ms: float = 0.0
    max_skew: float = 1e-4

    def __post_init__(self) -> None:
        check_numbers(self, requests=1, max_p99_ms=0.0, max_skew=0.0)


@dataclass(frozen=True, kw_only=True)
class KServeOptions:
    """The KServe `InferenceService` that gets a pushed model as its next revision.

    Attributes:
        name: Name of the service; empty to push nothing.
        namespace: Namespace of the service.
        canary_percent: Share of the requests that a new model gets, 1 to 100; the previous model
            gets the rest. Below 100, KServe must run in its serverless mode.
        folder: Folder of the models, each in a folder named after its version; by default `kserve`
            below the pipeline's `root`.
        storage: Address by which KServe reads `folder`, such as `pvc://penstock/runs/taxi/kserve`;
            required unless `folder` is an address.

    Raises:
        UsageError: A name is invalid in Kubernetes, or the share is out of range.
    """

    name: str = ""
    namespace: str = "penstock"
    canary_percent: int = 100
    folder: str = ""
    storage: str = ""

    def __post_init__(self) -> None:
        for option in ("name", "namespace"):
            value = getattr(self, option)
            if value and not _KUBERNETES_NAME.fullmatch(value):
                raise UsageError(f"kserve.{option} must be a name in Kubernetes, got {value!r}")
        check_numbers(self, canary_percent=(1, 100))


@dataclass(frozen=True, kw_only=True)
class RegisterOptions:
    """The registered model in MLflow to which a pushed model is added as a version.

    Attributes:
        uri: Address of the MLflow server; empty to register nothing. Its login is read from
            MLflow's environment variables, such as MLFLOW_TRACKING_TOKEN.
        name: Name of the registered model, and of the experiment with its metrics.
        alias: Alias to move to the new version.
        report: Address of the run's report, stored as a tag; by default `report.html` below the
            pipeline's `root`.
        code: Digest of the training's code, stored as a tag; the pipeline sets it.

    Raises:
        UsageError: Only one of `uri` and `name` is set.
    """

    uri: str = ""
    name: str = ""
    alias: str = "champion"
    report: str = ""
    code: str = ""

    def __post_init__(self) -> None:
        if bool(self.uri) != bool(self.name):
            raise UsageError("set uri and name, both or neither")
