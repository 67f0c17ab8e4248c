"""TFMA's computations of an evaluation: batches in whole where that is known, else row by row."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.evaluators import metrics_plots_and_validations_evaluator as tfma
from tensorflow_model_analysis.extractors import unbatch_extractor
from tensorflow_model_analysis.metrics import metric_types

from penstock.components.evaluator.class_tallies import tally_of
from penstock.components.evaluator.inputs import ByRowError, Extracts

logger = logging.getLogger(__name__)


class Computations:
    """What is known so far of each slice, of TFMA's computations that derive from no others."""

    def __init__(self, computations: Sequence[metric_types.MetricComputation]) -> None:
        self._computations = list(computations)
        self._tallies = [tally_of(computation) for computation in self._computations]
        self._by_row = _ByRow(self._computations)
        self._told = set(self.by_row)

    @property
    def by_row(self) -> tuple[int, ...]:
        """Those that TFMA's own combiner adds row by row, by their places."""
        return tuple(i for i, tally in enumerate(self._tallies) if tally is None)

    def names(self, which: Sequence[int]) -> str:
        """Their metrics."""
        return ", ".join(sorted({key.name for i in which for key in self._computations[i].keys}))

    def add(self, extracts: Extracts, rows: np.ndarray, slices: np.ndarray) -> None:
        """Add a batch of TFMA's extracts; rows and slices as `Slicer.members` gives them."""
        left = []
        for place, tally in enumerate(self._tallies):
            try:
                if tally is None:
                    raise ByRowError
                tally.add(extracts, rows, slices)
            except ByRowError:
                left.append(place)
        if left:
            self._tell(left)
            self._by_row.add(tuple(left), extracts, rows, slices)

    def outputs(self, number: int) -> dict[Any, Any]:
        """TFMA's outputs of a slice, by their keys."""
        found: dict[Any, Any] = {}
        for place, computation in enumerate(self._computations):
            combiner, tally = computation.combiner, self._tallies[place]
            parts = self._by_row.accumulators(number, place)
            if tally is not None:
                parts.append(tally.accumulator(number))
            # An iterator as Beam's: of a list, some of TFMA's combiners add the first one twice.
            merged = combiner.merge_accumulators(iter(parts)) if len(parts) > 1 else parts[0]
            found.update(combiner.extract_output(merged))
        return found

    def _tell(self, left: Sequence[int]) -> None:
        if new := set(left) - self._told:
            self._told |= new
            logger.info(
                "rows that are ragged, texts or without a value: added row by row to %s",
                self.names(sorted(new)),
            )


class _ByRow:
    """TFMA's combiners and what they hold, by slice and place of the computation."""

    def __init__(self, computations: list[metric_types.MetricComputation]) -> None:
        self._computations = computations
        self._held: dict[int, dict[int, Any]] = defaultdict(dict)
        self._ways: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def add(
        self, which: tuple[int, ...], extracts: Extracts, rows: np.ndarray, slices: np.ndarray
    ) -> None:
        prepare, combine = self._way(which)
        elements = [
            next(iter(prepare.process({**row, constants.SLICE_KEY_TYPES_KEY: ()})))
            for row in unbatch_extractor._extract_unbatched_inputs(extracts)
        ]
        for row, number in zip(rows.tolist(), slices.tolist(), strict=True):
            held = self._held[number]
            before = tuple(held[place] if place in held else self._new(place) for place in which)
            held.update(zip(which, combine.add_input(before, elements[row]), strict=True))

    def accumulators(self, number: int, place: int) -> list[Any]:
        held = self._held.get(number, {})
        return [held[place]] if place in held else []

    def _new(self, place: int) -> Any:
        return self._computations[place].combiner.create_accumulator()

    def _way(self, which: tuple[int, ...]) -> tuple[Any, Any]:
        """TFMA's own step from rows to combiners, and these combiners as one."""
        if which not in self._ways:
            chosen = [self._computations[place] for place in which]
            way = tfma._PreprocessorDoFn(chosen), tfma._ComputationsCombineFn(chosen)
            for step in way:
                step.setup()
            way[0].start_bundle()
            self._ways[which] = way
        return self._ways[which]
