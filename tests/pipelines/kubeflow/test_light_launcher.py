"""ShardedExampleGen's driver and the views of outputs work before TensorFlow is imported."""

import json
import subprocess
import sys

import pytest

CODE = """
import json, sys
from penstock.pipelines.kubeflow import light_launcher
with light_launcher.without_tensorflow():
    import penstock.pipelines.kubeflow.node
light_launcher.import_driver("penstock.components.example_gen.driver.ContentDriver")
from penstock.components.example_gen import driver
import penstock.pipelines.reporting.page, penstock.components.trainer.record
import penstock.components.gates.baseline, penstock.components.gates.served_model
from tfx.proto import example_gen_pb2
splits = [example_gen_pb2.Input.Split(name="a", pattern="{YYYY}-{MM}-{DD}/v{VERSION}/*")]
processor = driver.ContentDriver(None).get_input_processor(splits, None, sys.argv[1])
span, version = processor.resolve_span_and_version()
pattern = processor.get_pattern_for_span_version(splits[0].pattern, span, version)
light = sorted({"tensorflow", "apache_beam", "tfx.components"} & sys.modules.keys())
light_launcher.load_tensorflow()
import tensorflow, tensorflow_data_validation, tensorflow_model_analysis, tfx.components
example = tensorflow.train.Example.FromString(b"")
print(json.dumps([light, span, pattern, tfx.components.CsvExampleGen is not None]))
"""


@pytest.mark.slow
def test_driver_of_sharded_example_gen_finds_the_newest_span_without_tensorflow(tmp_path):
    for name in ("1970-01-03/v1", "1970-01-03/v10", "1970-01-03/v9", "1970-01-02/v11"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "rows.csv").write_text("x\n1\n")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE, tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == [[], 2, "1970-01-03/v10/*", True]
