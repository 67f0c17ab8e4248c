"""Options of the gates, of the serving check and of a push to KServe; no heavy imports."""

import re
from dataclasses import dataclass
from typing import Literal

from penstock.components.errors import UsageError
from penstock.components.limits import check_numbers
from penstock.components.tfrecord.manifest import MAX_QUARANTINED_SHARE

_KUBERNETES_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """Limits of the `ValidationGate`.

    Attributes:
        labels: Raw features that labels are made from; each must be present in every row and have
            more than one value.
        max_quarantined_share: Largest share of quarantined rows among the rows that are not blank,
            0..1.
        max_label_share: Largest share of a label's values that one of them may have, 0..1, of words
            and of few whole numbers; 1 is no limit.
        max_drift: Largest distance of a feature in a split to the same split of the baseline, 0..1,
            see `drift.py`; 1 is no limit. Numbers have noise up to 0.1: 0.2 is a sound limit.
        max_skew: Largest distance of a feature in a split to the first split, 0..1, likewise.
        leakage: Whether signs of leakage in a sample (a feature that gives a label away, rows or
            ids in two splits) are told, stop the run, or are not looked for.
        left_out: Raw features that the model does not get, where nothing can leak.
        group: Raw feature that the splits are grouped by.
        time: Raw feature with the time of a row's prediction; later ones are told.

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
    time: str | None = None

    def __post_init__(self) -> None:
        shares = ("max_quarantined_share", "max_label_share", "max_drift", "max_skew")
        check_numbers(self, **dict.fromkeys(shares, (0.0, 1.0)))


@dataclass(frozen=True, kw_only=True)
class ImageRules:
    """Limits of the `ImageGate`. Copies in two classes and missing classes always fail.

    Attributes:
        min_side_pixels: Least height and width.
        channels: Numbers of channels that are let through.
        min_class_images: Least images of each class in each split.
        max_class_imbalance: Largest ratio of the images of two classes of a split; 0 is no limit.
        max_duplicate_share: Largest share of images that are copies of others, 0..1.
        max_shared_images: Most images that may be in two splits.

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
    """Requests of the `ServingCheck` to a model.

    Attributes:
        split: Split of the Examples that the requests are taken from.
        signature: Signature that is served.
        requests: Most rows that are sent, one per request.
        max_p99_ms: Largest latency of 99 of 100 requests, in milliseconds; 0 is no limit.

    Raises:
        UsageError: A number is outside its range.
    """

    split: str = "eval"
    signature: str = "serving_default"
    requests: int = 200
    max_p99_ms: float = 0.0

    def __post_init__(self) -> None:
        check_numbers(self, requests=1, max_p99_ms=0.0)


@dataclass(frozen=True, kw_only=True)
class KServeOptions:
    """The `InferenceService` of KServe that gets a pushed model as its next revision.

    Attributes:
        name: Name of the service; empty for no push.
        namespace: Namespace of the service.
        canary_percent: Share of the requests that a new model gets, 1 to 100; the previous model
            gets the rest. Below 100 KServe must run in its serverless mode.
        folder: Folder of the models, each below a folder named after its version; by default
            `kserve` below the root.
        storage: `folder` as KServe sees it, such as `pvc://penstock/runs/taxi/kserve`; required
            unless the folder is an address.

    Raises:
        UsageError: A name is not one of Kubernetes, or the share is out of range.
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
