"""Progress of a Beam node in this process: elements and rate while its bundles run."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam.metrics import monitoring_infos
from apache_beam.runners.worker.bundle_processor import BundleProcessor

from penstock.components.activity import tell

_SECONDS_BETWEEN_LOOKS = 1.0


@contextmanager
def beam_told() -> Iterator[None]:
    """Reports the progress of the bundles that run in the block.

    A look reads the counters that Beam's own progress requests read, a few hundred a second. The
    in-memory runner makes no such requests while a bundle runs, so the processor is watched. Work
    in other processes (`beam_workers` above 1) is not seen.
    """
    stock = BundleProcessor.process_bundle
    running: dict[BundleProcessor, float] = {}
    ended = threading.Event()

    def process_bundle(processor: BundleProcessor, *arguments: Any, **named: Any) -> object:
        running[processor] = time.perf_counter()
        try:
            return stock(processor, *arguments, **named)
        finally:
            del running[processor]

    def look() -> None:
        while not ended.wait(_SECONDS_BETWEEN_LOOKS):
            for processor, began in list(running.items()):
                elements = _elements(processor)
                if elements > 1:
                    rate = elements / (time.perf_counter() - began)
                    tell(f"{elements:,} elements, {rate:,.0f}/s")

    looker = threading.Thread(target=look, name="beam-progress", daemon=True)
    BundleProcessor.process_bundle = process_bundle
    looker.start()
    try:
        yield
    finally:
        ended.set()
        looker.join()
        BundleProcessor.process_bundle = stock


def _elements(processor: BundleProcessor) -> int:
    """Elements of the largest collection of the bundle so far; 0 if it has just ended."""
    try:
        infos = processor.monitoring_infos()
    except Exception:  # its operations are being set up or taken down, whichever they are
        return 0
    return max(
        (
            monitoring_infos.extract_counter_value(info)
            for info in infos
            if info.urn == monitoring_infos.ELEMENT_COUNT_URN
        ),
        default=0,
    )
