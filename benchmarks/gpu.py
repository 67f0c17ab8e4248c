"""The share of time that the device waits: inputs, networks and options, against a batch on it.

penstock bench gpu
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.benchmarks import claims, packed_images, questions
from penstock.benchmarks import packed as packed_tables
from penstock.benchmarks.gpu_networks import (
    IMAGE_BATCH,
    LONG_IMAGES,
    NETWORKS,
    PACKED,
    ROWS,
    SHORT_TABLE,
    TABLE_BATCH,
    gpu_names,
    image_size,
)
from penstock.benchmarks.outcome import Comparison, Contender, FactTable, Outcome
from penstock.benchmarks.trained import TrainedOptions, in_turn, train_for
from penstock.components.errors import UsageError, counted


@dataclass(frozen=True)
class GpuOptions(TrainedOptions):
    """What is trained on, tables and images, and how often.

    Attributes:
        images: Made JPEG photos of 375 x 500.
        only: Comparisons whose titles have this in them; nothing takes all.
    """

    images: int = 512
    only: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.images < 1 or self.images % IMAGE_BATCH:
            raise UsageError(f"images must be a multiple of {IMAGE_BATCH}, got {self.images}")
        if not self.groups:
            titles = "; ".join(group.title for group in GROUPS)
            raise UsageError(f"no comparison has {self.only!r} in its title: there are {titles}")

    @property
    def groups(self) -> dict[int, "Group"]:
        """The comparisons, by their place in `GROUPS`."""
        return {i: group for i, group in enumerate(GROUPS) if self.only in group.title}


STEP_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"mixed_precision": "bfloat16"},
    {"xla": True},
    {"prefetch_to_device": False},
    {"gpu_memory_growth": False},
    {"steps_per_execution": 1},
    {"steps_per_execution": 10},
)
INPUT_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"private_threads": 1},
    {"private_threads": len(os.sched_getaffinity(0))},
    {"ram_budget_mib": 64},
    {"prefetch_batches": 2},
    {"prefetch_batches": 32},
)


@dataclass(frozen=True)
class Group:
    """Trainings that are compared: a network's inputs, or options of `train` or of one input."""

    title: str
    network: str
    input: str | None = None
    options: Sequence[dict[str, Any]] = ()

    @property
    def names(self) -> list[str]:
        """The contenders."""
        named = [",".join(f"{k}={v}" for k, v in one.items()) for one in self.options]
        return [name or "as it comes" for name in named] or list(NETWORKS[self.network].inputs)


GROUPS = (
    *(Group(f"Inputs: {name}", name) for name in NETWORKS),
    Group(f"Options of the step: {SHORT_TABLE}", SHORT_TABLE, PACKED, STEP_OPTIONS),
    Group(f"Options of the step: {LONG_IMAGES}", LONG_IMAGES, PACKED, STEP_OPTIONS),
    Group(f"Options of the input: {SHORT_TABLE}", SHORT_TABLE, ROWS, INPUT_OPTIONS),
)


def prepare(options: GpuOptions) -> None:
    """Make the table and the images that are read, unless they are there."""
    units = {NETWORKS[group.network].unit for group in options.groups.values()}
    if "rows" in units:
        packed_tables.prepare(questions.data_folder(), options.rows)
    if "images" in units:
        root = packed_images.prepare(questions.data_folder(), options.images)
        packed_images.pack_images(root, image_size())


def run(options: GpuOptions) -> Outcome:
    """Train each group in turn."""
    began = time.perf_counter()
    questions.need("PIL")
    questions.prepare(__file__, options)
    found: list[tuple[Group, Results]] = []
    for number, group in options.groups.items():
        job = questions.job_arguments(group=number, options=asdict(options))
        found.append((group, in_turn(__file__, group.names, job, options.rounds)))
    (device,) = {one["device"] for _, results in found for one in results.values()}
    return Outcome(
        question="gpu",
        title="Does the device wait for its input?",
        setting=_setting(options, device),
        comparisons=[_comparison(*one) for one in found],
        facts=[table for one in found for table in (_facts(*one), _sentences(*one))],
        verdicts=[_verdict(*one) for one in found if one[0].input is None],
        seconds=time.perf_counter() - began,
    )


Results = Mapping[str, Mapping[str, Any]]


def _comparison(group: Group, results: Results) -> Comparison:
    network = NETWORKS[group.network]
    notes = {} if group.input else network.inputs
    contenders = []
    for name, r in results.items():
        note = questions.first_line(notes.get(name))
        contenders.append(
            Contender(name, r["rows_per_second"], r["cpu_us_per_row"], r["peak_mib"], note)
        )
    return Comparison(group.title, network.unit, contenders)


def _facts(group: Group, results: Results) -> FactTable:
    headers = (
        *("Contender", "Step, ms", "There, ms", "Of its speed, %"),
        *("Idle, %", "Busy, %", "Host waits, %", "GPU, MiB", "Copied, GB/s"),
    )

    def percent(share: float | None) -> float | str:
        return "-" if share is None else round(100 * share, 1)

    rows = [
        (
            *(name, round(r["step_ms"], 3), round(r["limit_ms"], 3)),
            percent(r["limit_ms"] / r["step_ms"]),
            *(percent(r[key]) for key in ("gpu_idle_share", "gpu_busy_share", "wait_share")),
            "-" if r["gpu_memory_mib"] is None else round(r["gpu_memory_mib"]),
            float(f"{r['rows_per_second'] * r['row_bytes'] / 1e9:.2g}"),
        )
        for name, r in results.items()
    ]
    return FactTable(f"{group.title}, against a batch that is there", headers, rows)


def _sentences(group: Group, results: Results) -> FactTable:
    rows = [(name, r["verdict"]) for name, r in results.items()]
    return FactTable(f"{group.title}, as each training says", ("Contender", "Verdict"), rows)


def _verdict(group: Group, results: Results) -> claims.Judgement:
    fed = results[PACKED]
    how = f"{group.network}: a step on a batch on the device to one from packed records"
    return claims.judge(claims.DEVICE_NEVER_WAITS, fed["limit_ms"] / fed["step_ms"], how)


def _setting(options: GpuOptions, device: str) -> list[str]:
    where = f"the device: {device}"
    if device == "CPU":
        where = (
            "no GPU was found: the networks are small and share the cores with their input, no "
            "profile has an idle share, and a GPU's figures will differ"
        )
    return [
        where,
        f"{options.rows:,} made rows of 40 columns in batches of {TABLE_BATCH}, {options.images:,} "
        f"made JPEG photos of 375 x 500 in batches of {IMAGE_BATCH}",
        f"{counted(options.rounds, 'round')} of {options.seconds:g} s of steady steps, each "
        "training a process of its own, in turn; files are in the page cache",
        "each training is held against its own steps on one batch that already lies on the device; "
        "the device's idle share is by TensorFlow's profiler, its busy share by NVML",
        "not measured: pinned staging memory, which TensorFlow takes by itself and no option sets, "
        "and collective_timeout_seconds, which bounds a wait for other workers and costs a step "
        "nothing",
    ]


def _contend(name: str, job: dict[str, Any]) -> dict[str, Any]:
    group, options = GROUPS[job["group"]], GpuOptions(**job["options"])
    network = NETWORKS[group.network]
    folder = questions.data_folder()
    roots = {
        "rows": folder / f"packed-{options.rows}",
        "images": packed_images.root_of(folder, options.images),
    }
    chosen = group.options[group.names.index(name)] if group.options else {}
    reading, training = (chosen, {}) if group.options is INPUT_OPTIONS else ({}, chosen)
    figures = train_for(
        options.seconds,
        network.make,
        lambda: network.inputs[group.input or name](roots[network.unit], **reading),
        batch_rows=network.batch,
        calibration_steps=network.calibration_steps,
        profile_seconds=0.5 if gpu_names() else 0.0,
        **training,
    )
    # 32 numbers and a label as float32; or uint8 pixels and a label as int64.
    row_bytes = image_size() ** 2 * 3 + 8 if network.unit == "images" else 33 * 4
    return {**figures, "row_bytes": row_bytes, "device": " and ".join(gpu_names()) or "CPU"}


if __name__ == "__main__":
    questions.answer_child(GpuOptions, prepare, _contend)
