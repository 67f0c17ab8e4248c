"""Requests of a node to Kubernetes: resources, a volume, a login, a GPU, retries.

Written as Kubernetes writes them, and checked as it would check them, but before anything is sent.
"""

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from kubernetes.utils.quantity import parse_quantity

from penstock.components.errors import UsageError

_CPU = re.compile(r"^(\d+|\d*\.\d+|\d+m)$")
_MEMORY = re.compile(r"^\d+(Ki|Mi|Gi|Ti|K|M|G|T|)$")
# What Kubernetes takes for a name of an object, and for the key of a label or an environment.
_NAME = re.compile(r"^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$")
_KEY = re.compile(r"^[-._a-zA-Z0-9/]+$")
_VARIABLE = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_]*$")


@dataclass(frozen=True)
class Resources:
    """What one node asks for and what it may use at most.

    Attributes:
        cpu_request: Processors, as Kubernetes writes them: `2`, `0.5` or `500m`.
        cpu_limit: The same.
        memory_request: Bytes, as Kubernetes writes them: `2Gi`, `512Mi`.
        memory_limit: The same.
        timeout_seconds: When a try is stopped, by SIGTERM and a minute later by SIGKILL; None lets
            it go on.
    """

    cpu_request: str = "1"
    cpu_limit: str = "4"
    memory_request: str = "2Gi"
    memory_limit: str = "8Gi"
    timeout_seconds: int | None = None

    def __post_init__(self) -> None:
        for name in ("cpu_request", "cpu_limit"):
            _match(_CPU, getattr(self, name), name, "2, 0.5 or 500m")
        for name in ("memory_request", "memory_limit"):
            _match(_MEMORY, getattr(self, name), name, "2Gi or 512Mi")
        for kind in ("cpu", "memory"):
            request, limit = getattr(self, f"{kind}_request"), getattr(self, f"{kind}_limit")
            if parse_quantity(request) > parse_quantity(limit):
                raise UsageError(f"{kind}_request {request} is above {kind}_limit {limit}")
        if self.timeout_seconds is not None and self.timeout_seconds < 1:
            raise UsageError(f"timeout_seconds must be 1 or more, got {self.timeout_seconds}")


@dataclass(frozen=True)
class Retry:
    """How often a failed node is tried again, how long after, and until when.

    Attributes:
        times: Tries after the first one.
        wait_seconds: Before the second try.
        factor: How many times longer each wait is than the one before, a whole number.
        total_seconds: No try begins or goes on later than this after the first one began; it must
            leave room for all that the node may take. A month, so that no training meets it.
    """

    times: int = 2
    wait_seconds: int = 30
    factor: int = 2
    total_seconds: int = 30 * 24 * 3600

    def __post_init__(self) -> None:
        if self.times < 0:
            raise UsageError(f"retry.times must be 0 or more, got {self.times}")
        if not 0 < self.wait_seconds < self.total_seconds:
            raise UsageError(
                "retry needs 0 < wait_seconds < total_seconds, "
                f"got {self.wait_seconds} and {self.total_seconds}"
            )
        if self.factor < 1:
            raise UsageError(f"retry.factor must be 1 or more, got {self.factor}")


@dataclass(frozen=True)
class Volume:
    """A claim on a volume that every node mounts.

    Attributes:
        claim: Name of the PersistentVolumeClaim.
        mount_path: Where it appears in the containers.
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
    """The Kubernetes secret with the login to MySQL.

    Attributes:
        name: The secret's name.
        user_key: Its key for the user.
        password_key: Its key for the password.
        tls_name: A secret with `ca.crt`, and `tls.crt` and `tls.key` where the server asks for a
            client's certificate; the connection is not encrypted without one.
    """

    name: str = "penstock-mysql"
    user_key: str = "user"
    password_key: str = "password"
    tls_name: str | None = None

    def __post_init__(self) -> None:
        check_object_name("mysql_secret.name", self.name)
        if self.tls_name is not None:
            check_object_name("mysql_secret.tls_name", self.tls_name)
        for name in ("user_key", "password_key"):
            _match(_KEY, getattr(self, name), f"mysql_secret.{name}", "a key of a secret")


@dataclass(frozen=True)
class Toleration:
    """A taint of a Kubernetes node that is no hindrance.

    Attributes:
        key: The taint's key.
        operator: `Exists` for any value, `Equal` for `value`.
        value: The taint's value.
        effect: The taint's effect; any where None.
    """

    key: str = "nvidia.com/gpu"
    operator: Literal["Exists", "Equal"] = "Exists"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    def __post_init__(self) -> None:
        _match(_KEY, self.key, "a toleration's key", "a key of a taint")
        if (self.operator == "Equal") != (self.value is not None):
            raise UsageError(
                f"toleration of {self.key}: operator Equal needs a value, Exists takes none"
            )

    def spec(self) -> dict[str, str]:
        """As Kubernetes writes it."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Affinity:
    """A label that Kubernetes nodes must, or must not, have.

    Attributes:
        key: The label.
        operator: `In` or `NotIn` for `values`, `Exists` or `DoesNotExist` for the label.
        values: Its values.
    """

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = "In"
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _match(_KEY, self.key, "an affinity's key", "a label")
        if (self.operator in ("In", "NotIn")) != bool(self.values):
            raise UsageError(
                f"affinity of {self.key}: In and NotIn need values, Exists and DoesNotExist none"
            )

    def spec(self) -> dict[str, Any]:
        """As Kubernetes writes it."""
        return {**asdict(self), "values": list(self.values)}


@dataclass(frozen=True)
class Gpu:
    """Accelerators, for training only.

    Attributes:
        resource: The resource's name in Kubernetes.
        count: How many each of those nodes gets.
        node_selector: Labels of the Kubernetes nodes that have them.
        tolerations: Their taints.
        nodes: Ids of the pipeline's nodes that train; where none are named, those whose
            component is called `Trainer`.
    """

    resource: str = "nvidia.com/gpu"
    count: int = 1
    node_selector: dict = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = field(default_factory=lambda: (Toleration(),))
    nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _match(_KEY, self.resource, "gpu.resource", "a resource like nvidia.com/gpu")
        if self.count < 1:
            raise UsageError(f"gpu.count must be 1 or more, got {self.count}; or leave gpu out")
        check_texts("gpu.node_selector", self.node_selector)

    def is_for(self, node_id: str, component: str) -> bool:
        """Whether a node of that component class trains."""
        return node_id in self.nodes if self.nodes else component.split(".")[-1] == "Trainer"


def _match(pattern: re.Pattern[str], value: str, name: str, expected: str) -> None:
    if not pattern.match(value):
        raise UsageError(f"{name} must be {expected}, got {value!r}")


def check_object_name(name: str, value: str) -> None:
    """Refuse what Kubernetes takes for no name of an object."""
    _match(_NAME, value, name, "a name of a Kubernetes object")


def check_texts(name: str, texts: dict) -> None:
    """Labels and annotations are texts; YAML makes numbers and booleans of some of them."""
    for key, value in texts.items():
        _match(_KEY, str(key), name, "labels")
        if not isinstance(value, str):
            raise UsageError(f"{name}: quote the value of {key}, {value!r}")


def check_secret(where: str, name: str, variables: dict) -> None:
    """Refuse what is no secret whose keys become environment variables."""
    check_object_name(where, name)
    if not isinstance(variables, dict) or not variables:
        raise UsageError(f"{where}: expected KEY: VARIABLE for each key, got {variables!r}")
    for key, variable in variables.items():
        _match(_KEY, str(key), where, "a key of a secret")
        _match(_VARIABLE, str(variable), f"{where}.{key}", "an environment variable's name")
