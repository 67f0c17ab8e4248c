"""Data that drifts from the last blessed run's data stops a run; TFX's resolver finds that data."""

from pathlib import Path

import pandas as pd
import pytest
import tensorflow_data_validation as tfdv
from shared_runs import run_nodes
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.common.resolver import Resolver
from tfx.types import Channel
from tfx.types.standard_artifacts import (
    ExampleAnomalies,
    Examples,
    ExampleStatistics,
    ModelBlessing,
)

from penstock.components.gates.baseline import LatestBlessedStatisticsStrategy
from penstock.components.gates.gate import ValidationGate
from penstock.components.gates.options import GateOptions
from penstock.pipelines.local.runner import NodeFailedError


@component
def Describe(  # noqa: N802
    cash: Parameter[int],
    statistics: OutputArtifact[ExampleStatistics],
    anomalies: OutputArtifact[ExampleAnomalies],
    examples: OutputArtifact[Examples],
):
    rows = pd.DataFrame({"payment": ["cash"] * cash + ["card"] * (100 - cash)})
    found = tfdv.generate_statistics_from_dataframe(rows)
    folder = Path(statistics.uri, "Split-train")
    folder.mkdir()
    (folder / "FeatureStats.pb").write_bytes(found.SerializeToString())
    statistics.split_names = '["train"]'


@component
def Bless(  # noqa: N802
    statistics: InputArtifact[ExampleStatistics],
    blessed: Parameter[int],
    blessing: OutputArtifact[ModelBlessing],
):
    blessing.set_int_custom_property("blessed", blessed)


def run(root, cash, blessed=1):
    describe = Describe(cash=cash)
    statistics = describe.outputs["statistics"]
    before = Resolver(
        strategy_class=LatestBlessedStatisticsStrategy,
        statistics=Channel(type=ExampleStatistics),
        model_blessing=Channel(type=ModelBlessing),
        candidate=statistics,
    ).with_id("Before")
    gate = ValidationGate(
        statistics=statistics,
        anomalies=describe.outputs["anomalies"],
        examples=describe.outputs["examples"],
        options=GateOptions(max_drift=0.2, leakage="off"),
        baseline=before.outputs["statistics"],
    )
    bless = Bless(statistics=statistics, blessed=blessed)
    bless.add_upstream_node(gate)
    return run_nodes("drift", root, describe, before, gate, bless)["ValidationGate"]


def test_drift_is_measured_against_the_last_blessed_runs_data(tmp_path):
    assert run(tmp_path, 50) == "done"  # there is nothing to compare with
    assert run(tmp_path, 50) == "cached"
    assert run(tmp_path, 65, blessed=0) == "done"
    text = "'payment': its values differ by 0.30 from those in the baseline's data; expected"
    with pytest.raises(NodeFailedError, match=text):
        run(tmp_path, 80)  # compared with the run of 50, because that of 65 was not blessed
    assert run(tmp_path, 64) == "done"
    assert run(tmp_path, 80) == "done"  # compared with the run of 64
