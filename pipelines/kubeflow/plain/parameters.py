"""The parameters of the plain components, and their defaults."""

from dataclasses import dataclass, field

from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.split_options import SplitOptions
from penstock.components.gates.checks import GateOptions
from penstock.components.packing.options import PackOptions


@dataclass(frozen=True)
class IngestParameters:
    """What `ingest` takes besides its Dataset; each is described where Kubeflow sees it."""

    inputs: tuple[str, ...] = ()
    splits: dict = field(
        default_factory=lambda: {split.name: split.hash_buckets for split in SplitOptions.splits}
    )
    kind: str = ""
    source: dict = field(default_factory=dict)
    schema: str = ""
    on_bad_row: str = IngestOptions.on_bad_row
    max_quarantined_share: float = IngestOptions.max_quarantined_share
    shards: int | None = None
    workers: int = 1


@dataclass(frozen=True)
class ValidateParameters:
    """What `validate` takes besides its Dataset."""

    schema: str = ""
    label: str = GateOptions.label
    max_quarantined_share: float = GateOptions.max_quarantined_share
    stop_if_unfit: bool = True
    workers: int = 1


@dataclass(frozen=True)
class PackParameters:
    """What `pack` takes besides its Dataset."""

    splits: tuple[str, ...] = PackOptions.splits
    columns: tuple[str, ...] = PackOptions.columns
    ids: tuple[str, ...] = PackOptions.ids
    images: tuple[str, ...] = ()
    schema: str = ""
    on_missing: str = PackOptions.on_missing
    block_rows: int | None = PackOptions.block_rows
    seed: int = PackOptions.seed
    shards: int | None = None
