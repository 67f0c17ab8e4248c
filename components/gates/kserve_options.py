"""Options of a push to KServe."""

import re
from dataclasses import dataclass

from penstock.components.errors import UsageError

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True)
class KServeOptions:
    """The `InferenceService` that a pushed model becomes the next revision of.

    Attributes:
        name: Its name; empty for none.
        namespace: Its namespace.
        canary_percent: Share of the requests that a new model gets, 1 to 100; the rest goes to the
            one that had all. Below 100 KServe must run in its serverless mode.
        folder: Where models are put for it, below a folder of their version each; the folder
            `kserve` below the root where empty.
        storage: `folder` as KServe sees it, as `pvc://penstock/runs/taxi/kserve`; needed where the
            folder is no address.
    """

    name: str = ""
    namespace: str = "penstock"
    canary_percent: int = 100
    folder: str = ""
    storage: str = ""

    def __post_init__(self) -> None:
        for option in ("name", "namespace"):
            value = getattr(self, option)
            if value and not _NAME.fullmatch(value):
                raise UsageError(f"kserve.{option} must be a name in Kubernetes, got {value!r}")
        if not 1 <= self.canary_percent <= 100:
            raise UsageError(f"kserve.canary_percent must be 1..100, got {self.canary_percent}")
