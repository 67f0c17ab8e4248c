"""Advice on the options to change if the input limits a training, each with its evidence."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.components.errors import counted
from penstock.components.trainer.record import TrainingRecord
from penstock.components.trainer.utilisation.record import InputFacts, Utilisation

# Above this share of busy cores, more parallel threads cannot help.
CPU_SATURATED_ABOVE = 0.85
# Below this share, something other than CPU work slows the input down.
CPU_IDLE_BELOW = 0.5
# To hand over a batch takes about 0.1 ms; a step of less than ten times that is mostly overhead.
_SHORT_STEP_SECONDS = 0.001
# GZIP rows grow about fivefold when inflated; uncompressed rows take no more parsed than stored.
_INFLATION = 5.0
# Share of free memory that a cache may take; windows and buffers need the rest.
_CACHE_SHARE = 0.5
_MANY_COLUMNS = 20
# Cost of packing, in passes over the rows: 1.7 to 2.3 for 131,072 rows of 40 columns; `penstock
# pack` prints its own.
_PACKING_PASSES = 2
_MOST = 2


@dataclass(frozen=True)
class _Evidence:
    """Figures on which the rules decide; see `Utilisation` and `InputFacts`."""

    training: TrainingRecord
    used: Utilisation
    input: InputFacts
    cpu_share: float

    @property
    def reads_files(self) -> bool:
        """Whether each pass reads the files; with a cache, only the first pass does."""
        return self.input.cache == "none"

    @property
    def busy(self) -> str:
        return f"{100 * self.cpu_share:.0f} % of {counted(self.used.cores, 'core')} are busy"


def input_advice(training: TrainingRecord, used: Utilisation) -> tuple[str, ...]:
    """Returns at most two options to change, most promising first; empty without steady steps."""
    cpu_share = used.cpu_share
    if cpu_share is None:
        return ()
    if used.input is None:
        return (_of_unknown_input(cpu_share, used.cores),)
    evidence = _Evidence(training, used, used.input, cpu_share)
    found = [text for rule in _RULES if (text := rule(evidence))]
    return tuple(found[:_MOST]) or (_storage(evidence),)


def _cache(e: _Evidence) -> str | None:
    free, facts = e.used.free_memory_mib, e.input
    if not e.reads_files or facts.kind != "rows" or not facts.fixed_length:
        return None
    passes = e.training.steps * facts.batch_rows / facts.rows if facts.rows else 0.0
    needed = facts.stored_mib * (_INFLATION if facts.compressed else 1.0)
    if passes < 2 or free is None or needed > _CACHE_SHARE * free:
        return None
    return (
        f"keep the rows in memory (cache=memory): {facts.stored_mib:,.1f} MiB of shards, read "
        f"{passes:.1f} times, go into the {free:,.0f} MiB that are free"
    )


def _larger_batches(e: _Evidence) -> str | None:
    seconds = e.training.seconds_per_step or 0.0
    if seconds >= _SHORT_STEP_SECONDS:
        return None
    return (
        f"larger batches (batch_size, {e.input.batch_rows} now): a step of {1000 * seconds:.2f} ms "
        "is little more than the hand-over of its batch"
    )


def _prefetch(e: _Evidence) -> str | None:
    median, wait = e.used.batch_seconds.quantile(0.5), e.used.wait_seconds
    usual = wait.quantile(0.5)
    if e.cpu_share > CPU_SATURATED_ABOVE or not median or usual is None or usual > 0.1 * median:
        return None
    bursts = wait.share_of_time_above(10 * median)
    if bursts < 0.5:
        return None
    return (
        f"a bigger prefetch (prefetch_batches, {e.input.prefetch_batches} now): "
        f"{100 * bursts:.0f} % of the waiting is in waits longer than ten steps, half of the "
        f"steps wait less than {1000 * usual:.2f} ms"
    )


def _threads(e: _Evidence) -> str | None:
    threads = e.input.private_threads
    if threads is None or threads >= e.used.cores or e.cpu_share > CPU_SATURATED_ABOVE:
        return None
    return f"more threads (private_threads, {threads} now): {e.busy}"


def _shards(e: _Evidence) -> str | None:
    few = e.reads_files and e.input.files < e.input.interleave_files
    # With one file, parsed in parallel, 69 % of two cores were busy; 16 files were no faster.
    if not few or e.cpu_share > CPU_IDLE_BELOW:
        return None
    return (
        f"more shards: {counted(e.input.files, 'file')} read at a time, up to "
        f"{e.input.interleave_files} could be, and {e.busy}"
    )


def _interleave(e: _Evidence) -> str | None:
    many = e.reads_files and e.input.files > e.input.interleave_files
    if not many or e.cpu_share > CPU_IDLE_BELOW:
        return None
    return (
        f"more files at a time (interleave_files, {e.input.interleave_files} of {e.input.files} "
        f"now): {e.busy}"
    )


def _pack(e: _Evidence) -> str | None:
    if e.input.kind == "packed" or not e.reads_files or e.cpu_share < CPU_IDLE_BELOW:
        return None
    if e.input.kind == "images":
        decoding = "each pass decodes them again"
        return f"pack the images as pixels: {decoding}, and {e.busy}{_cpu_a_row(e)}"
    return (
        f"pack the rows, which costs about {_PACKING_PASSES} passes over them once, or train on "
        f"fewer columns: {e.input.columns} are parsed of each row, and "
        f"{e.busy}{_cpu_a_row(e)}"
    )


def _columns(e: _Evidence) -> str | None:
    plain_rows = e.input.kind == "rows" and e.reads_files
    if plain_rows or e.input.columns < _MANY_COLUMNS or e.cpu_share < CPU_SATURATED_ABOVE:
        return None
    return f"fewer columns: {e.input.columns} are copied of each row, and {e.busy}{_cpu_a_row(e)}"


def _compression(e: _Evidence) -> str | None:
    if not e.input.compressed or e.cpu_share < CPU_IDLE_BELOW or not e.reads_files:
        return None
    return f"shards without compression: each pass inflates them again, and {e.busy}"


def _storage(e: _Evidence) -> str:
    if e.cpu_share < CPU_IDLE_BELOW and not e.reads_files:
        return f"no option of the input holds it up, and {e.busy}"
    if e.cpu_share < CPU_IDLE_BELOW:
        return (
            f"a nearer or faster disk for {counted(e.input.files, 'file')}: {e.busy}, and no "
            "option holds the input up"
        )
    return f"more cores, or an accelerator for the step: {e.busy}{_cpu_a_row(e)}"


def _of_unknown_input(cpu_share: float, cores: float) -> str:
    busy = f"{100 * cpu_share:.0f} % of {counted(cores, 'core')} are busy"
    if cpu_share < CPU_SATURATED_ABOVE:
        return (
            "let the input work in parallel and ahead (map with num_parallel_calls, prefetch): "
            f"only {busy}"
        )
    return f"do less for each row, or do it once before training: {busy}"


def _cpu_a_row(e: _Evidence) -> str:
    """Returns the CPU time per row; it includes the training step, which shares the cores."""
    rows = sum(epoch.steps for epoch in e.used.epochs) * e.input.batch_rows
    seconds = sum(epoch.cpu_seconds for epoch in e.used.epochs)
    return f" ({1e6 * seconds / rows:,.1f} us of CPU a row, its share of the step included)"


_RULES: tuple[Callable[[_Evidence], str | None], ...] = (
    _cache,
    _larger_batches,
    _prefetch,
    _threads,
    _shards,
    _interleave,
    _pack,
    _compression,
    _columns,
)
