import re
import time

import apache_beam as beam
from local_beam import local_pipeline

from penstock.components.activity import listening
from penstock.pipelines.local import beam_progress
from penstock.pipelines.local.beam_progress import beam_told


def slowly(number: int) -> int:
    time.sleep(0.002)
    return number


def test_elements_and_rate_are_told_while_a_bundle_runs(monkeypatch):
    monkeypatch.setattr(beam_progress, "_SECONDS_BETWEEN_LOOKS", 0.05)
    heard = []
    with listening(heard.append), beam_told(), local_pipeline() as pipeline:
        _ = pipeline | beam.Create(range(300)) | beam.Reshuffle() | beam.Map(slowly)
    counts = [
        int(re.fullmatch(r"([\d,]+) elements, [\d,]+/s", told.text)[1].replace(",", ""))
        for told in heard
    ]
    assert len(counts) > 3
    assert 1 < max(counts) <= 300


def test_nothing_is_left_behind():
    stock = beam_progress.BundleProcessor.process_bundle
    with beam_told():
        assert beam_progress.BundleProcessor.process_bundle is not stock
    assert beam_progress.BundleProcessor.process_bundle is stock
