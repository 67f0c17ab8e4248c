"""Pipelines on Beam's own local runner."""

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from penstock.components.engine.options import local_beam_args


def local_pipeline(workers=1):
    return beam.Pipeline(options=PipelineOptions(flags=local_beam_args(workers)))
