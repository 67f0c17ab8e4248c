"""TFX's own example pipelines, as their authors wrote them, with most options turned on.

The pipeline roots and the penguin data are below the folder that the environment variable
`TFX_EXAMPLES_ROOT` names. This folder represents the volume of a cluster.
"""

import os
from pathlib import Path

import tfx.v1 as tfx
from tfx.examples.chicago_taxi_pipeline import taxi_pipeline_native_keras
from tfx.examples.penguin import penguin_pipeline_local

EXAMPLES = Path(tfx.__file__).parents[1] / "examples"


def taxi() -> tfx.dsl.Pipeline:
    folder = EXAMPLES / "chicago_taxi_pipeline"
    root = os.environ["TFX_EXAMPLES_ROOT"]
    return taxi_pipeline_native_keras._create_pipeline(
        pipeline_name="taxi_native_keras",
        pipeline_root=f"{root}/taxi",
        data_root=str(folder / "data/simple"),
        module_file=str(folder / "taxi_utils_native_keras.py"),
        serving_model_dir=f"{root}/taxi/serving_model",
        metadata_path=f"{root}/taxi/metadata.db",
        beam_pipeline_args=["--direct_running_mode=in_memory"],
    )


def penguin() -> tfx.dsl.Pipeline:
    root = os.environ["TFX_EXAMPLES_ROOT"]
    return penguin_pipeline_local.create_pipeline(
        pipeline_name="penguin.local",
        pipeline_root=f"{root}/penguin",
        data_root=f"{root}/penguin_data",
        module_file=str(EXAMPLES / "penguin/penguin_utils_keras.py"),
        accuracy_threshold=0.6,
        serving_model_dir=f"{root}/penguin/serving_model",
        metadata_path=f"{root}/penguin/metadata.db",
        user_provided_schema_path=None,
        enable_tuning=False,
        enable_bulk_inferrer=True,
        enable_example_diff=True,
        examplegen_input_config=tfx.proto.Input(
            splits=[tfx.proto.Input.Split(name="input", pattern="day{SPAN}/*")]
        ),
        examplegen_range_config_date="20231003",
        resolver_range_config=tfx.proto.RangeConfig(
            rolling_range=tfx.proto.RollingRange(num_spans=2)
        ),
        beam_pipeline_args=["--direct_running_mode=in_memory"],
        enable_transform_input_cache=True,
    )
