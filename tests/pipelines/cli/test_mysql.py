"""Every command that takes a store in MySQL reaches it by the same address, with TLS."""

import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.runs.metadata_store import MySqlStore
from tests.pipelines.cli.conftest import call

ADDRESS = "mysql://mysql.example:3307/mine?tls=/certificates"


@pytest.mark.parametrize(
    "command",
    [
        ("report", ADDRESS),
        ("report", "x", "--root", ADDRESS),
        ("runs", "list", ADDRESS),
        ("runs", "prune", ADDRESS),
        ("node", "Trainer", "--run-id", "r", "--metadata", ADDRESS),
    ],
)
def test_a_command_opens_the_store_that_its_flags_say(command, monkeypatch, tmp_path):
    def asked(store):
        raise UsageError(f"asked {store!r}")

    monkeypatch.setattr(MySqlStore, "connection_config", asked)
    if command[0] == "node":
        from tfx.dsl.components.common.importer import Importer
        from tfx.orchestration.pipeline import Pipeline
        from tfx.types.standard_artifacts import Model

        from penstock.pipelines.kubeflow import ir as irs

        node = Importer("/model", Model).with_id("Trainer")
        ir = irs.compile_ir(Pipeline("p", str(tmp_path), components=[node]))
        (tmp_path / "ir.pb").write_bytes(ir.SerializeToString())
        command = (*command, "--ir", str(tmp_path / "ir.pb"))
    done = call(*command)
    expected = "MySqlStore(host='mysql.example', port=3307, database='mine', tls='/certificates')"
    assert str(done.exception) == f"asked {expected}"
