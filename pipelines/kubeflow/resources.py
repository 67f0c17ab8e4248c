"""Parts of a placement: resources, retries, volume, login, tolerations, affinity, GPU, message.

Values have the form that Kubernetes requires; names and quantities are checked on reading.
"""

import re
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, Literal

from kubernetes.utils.quantity import parse_quantity

from penstock.components.errors import UsageError
from penstock.components.limits import check_numbers

# Kubernetes' rule for names of objects.
_NAME = re.compile(r"^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$")


@dataclass(frozen=True)
class Resources:
    """Requests and limits of one node.

    Attributes:
        cpu_request: Requested CPUs, such as `2`, `0.5` or `500m`.
        cpu_limit: Maximum CPUs, in the same form.
        memory_request: Requested memory, such as `2Gi` or `512Mi`.
        memory_limit: Maximum memory, in the same form.
        timeout_seconds: Seconds after which an attempt gets SIGTERM, and a minute later SIGKILL;
            None sets no limit.
    """

    cpu_request: str = "1"
    cpu_limit: str = "4"
    memory_request: str = "2Gi"
    memory_limit: str = "8Gi"
    timeout_seconds: int | None = None

    def __post_init__(self) -> None:
        for kind in ("cpu", "memory"):
            names = f"{kind}_request", f"{kind}_limit"
            texts = [getattr(self, name) for name in names]
            request, limit = map(_quantity, names, texts)
            if request > limit:
                raise UsageError(f"{names[0]} {texts[0]} is above {names[1]} {texts[1]}")
        check_numbers(self, timeout_seconds=1)


@dataclass(frozen=True)
class Retry:
    """Retries of a failed node.

    Attributes:
        times: Number of retries.
        wait_seconds: Seconds before the first retry.
        factor: Whole number by which each wait is multiplied to give the next one.
        total_seconds: Seconds from the start of the first attempt until a running attempt is killed
            and no further attempt starts. The default, 30 days, is meant to be longer than any
            training.
    """

    times: int = 2
    wait_seconds: int = 30
    factor: int = 2
    total_seconds: int = 30 * 24 * 3600

    def __post_init__(self) -> None:
        check_numbers(self, times=0, factor=1)
        if not 0 < self.wait_seconds < self.total_seconds:
            raise UsageError(
                "retry needs 0 < wait_seconds < total_seconds, "
                f"got {self.wait_seconds} and {self.total_seconds}"
            )


@dataclass(frozen=True)
class Volume:
    """Volume that every node mounts.

    Attributes:
        claim: Name of the PersistentVolumeClaim.
        mount_path: Folder in the containers at which the volume is mounted.
    """

    claim: str = "penstock"
    mount_path: str = "/penstock"

    def __post_init__(self) -> None:
        check_object_name("volume.claim", self.claim)
        if not self.mount_path.startswith("/") or self.mount_path == "/":
            raise UsageError(
                f"volume.mount_path must be an absolute path, not /, got {self.mount_path!r}"
            )


@dataclass(frozen=True)
class MySqlSecret:
    """Kubernetes secret with the login to MySQL.

    Attributes:
        name: Name of the secret.
        user_key: Key of the user name in the secret.
        password_key: Key of the password in the secret.
        tls_name: Secret with `ca.crt` and, if the server requires a client certificate, `tls.crt`
            and `tls.key`; None connects without encryption.
    """

    name: str = "penstock-mysql"
    user_key: str = "user"
    password_key: str = "password"
    tls_name: str | None = None

    def __post_init__(self) -> None:
        check_object_name("mysql_secret.name", self.name)
        if self.tls_name is not None:
            check_object_name("mysql_secret.tls_name", self.tls_name)


@dataclass(frozen=True)
class Toleration:
    """Toleration of a taint of Kubernetes nodes."""

    key: str = "nvidia.com/gpu"
    operator: Literal["Exists", "Equal"] = "Exists"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    def spec(self) -> dict[str, str]:
        """Returns the toleration in Kubernetes' form."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Affinity:
    """Requirement on a label of Kubernetes nodes.

    Attributes:
        key: Key of the label.
        operator: Kubernetes' operator; `Exists` and `DoesNotExist` use only `key`, not `values`.
        values: Values for `In` and `NotIn`.
    """

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = "In"
    values: tuple[str, ...] = ()

    def spec(self) -> dict[str, Any]:
        """Returns the match expression in Kubernetes' form."""
        return {**asdict(self), "values": list(self.values)}


@dataclass(frozen=True)
class Gpu:
    """Accelerators of the nodes that train.

    Attributes:
        resource: Name of the resource in Kubernetes.
        count: Number of accelerators of each pod that trains.
        node_selector: Labels of the Kubernetes nodes with accelerators.
        tolerations: Tolerations of the taints of those Kubernetes nodes.
        nodes: Ids of the pipeline's nodes that train; by default those whose component is called
            `Trainer` or `Tuner`.
    """

    resource: str = "nvidia.com/gpu"
    count: int = 1
    node_selector: dict = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = field(default_factory=lambda: (Toleration(),))
    nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_numbers(self, count=1)
        check_texts("gpu.node_selector", self.node_selector)

    def is_for(self, node_id: str, component: str) -> bool:
        """Returns whether a node is one that trains, judged by its id or its component's class."""
        trains = component.split(".")[-1] in ("Trainer", "Tuner")
        return node_id in self.nodes if self.nodes else trains


@dataclass(frozen=True)
class Notify:
    """Message at the end of each run, whether it succeeded or failed.

    Attributes:
        webhook_secret: Kubernetes secret with the webhook's address, to which the message is sent
            as JSON.
        webhook_key: Key of the address in that secret.
        link: Address of a run's page, with RUN_ID in place of the run's id.
    """

    webhook_secret: str
    webhook_key: str = "url"
    link: str = ""

    def __post_init__(self) -> None:
        check_object_name("notify.webhook_secret", self.webhook_secret)


def _quantity(name: str, text: str) -> Decimal:
    try:
        return parse_quantity(text)
    except ValueError as error:
        form = "2, 0.5 or 500m" if name.startswith("cpu") else "2Gi or 512Mi"
        raise UsageError(f"{name} must be {form}, got {text!r}") from error


def check_object_name(name: str, value: str) -> None:
    """Raises UsageError for a text that cannot be the name of a Kubernetes object."""
    if not _NAME.match(value):
        raise UsageError(f"{name} must be a name of a Kubernetes object, got {value!r}")


def check_texts(name: str, texts: dict) -> None:
    """Raises UsageError for values that are not texts, such as `1`, a number in YAML."""
    for key, value in texts.items():
        if not isinstance(value, str):
            raise UsageError(f"{name}: quote the value of {key}, {value!r}")


def check_secret(where: str, name: str, variables: dict) -> None:
    """Raises UsageError if a secret's name is invalid, or if no key is mapped to a variable."""
    check_object_name(where, name)
    if not isinstance(variables, dict) or not variables:
        raise UsageError(f"{where}: expected KEY: VARIABLE for each key, got {variables!r}")
