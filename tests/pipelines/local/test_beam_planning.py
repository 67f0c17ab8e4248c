import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import core, userstate

from penstock.components.engine.pipeline import local_pipeline
from penstock.pipelines.local.beam_planning import planned_once


class Summed(beam.DoFn):
    SUM = userstate.CombiningValueStateSpec("sum", sum)

    def process(self, pair, total=beam.DoFn.StateParam(SUM)):  # noqa: B008  # as Beam asks for it
        total.add(pair[1])
        yield pair[0], total.read()


class Doubled(beam.DoFn):
    def process(self, number):
        yield number % 2, 2 * number


def test_the_same_comes_out_and_nothing_is_left_behind():
    stock = PipelineOptions.view_as, core.get_function_args_defaults
    with planned_once():
        options = PipelineOptions(["--streaming"])
        assert options.view_as(StandardOptions) is options.view_as(StandardOptions)
        options.view_as(StandardOptions).streaming = False
        assert not options.view_as(StandardOptions).streaming
        assert PipelineOptions(["--streaming"]).view_as(StandardOptions).streaming
        with local_pipeline() as pipeline:
            made = pipeline | beam.Create([1, 2, 3]) | beam.ParDo(Doubled()) | beam.ParDo(Summed())
            assert_that(made | beam.CombinePerKey(max), equal_to([(0, 4), (1, 8)]))
    assert (PipelineOptions.view_as, core.get_function_args_defaults) == stock
