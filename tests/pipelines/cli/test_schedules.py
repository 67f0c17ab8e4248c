"""Schedules on the server of conftest.py, a stand-in on loopback."""

import pytest
from typer.testing import CliRunner

from penstock.components.errors import UsageError
from penstock.pipelines.cli.main import app
from penstock.pipelines.kubeflow.submit import check_cron


def call(*arguments):
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


@pytest.fixture
def schedule(server, file):
    """The id of one of every night."""
    options = (
        "--parameter",
        "note=x",
        "--service-account",
        "penstock-runner",
        "--run-name",
        "nightly",
    )
    return call("submit", file, "--host", server.host, "--schedule", "0 3 * * *", *options).strip()


def test_schedule_runs_one_at_a_time_without_catch_up(server, schedule):
    assert schedule == "schedule-1"
    (made,) = server.schedules
    # KFP's cron is robfig's, which has seconds first (kfp Client.create_recurring_run).
    assert made["trigger"] == {"cron_schedule": {"cron": "0 0 3 * * *"}}
    assert (made["max_concurrency"], made["no_catchup"]) == (1, True)
    assert made["runtime_config"]["parameters"] == {"note": "x"}
    assert (made["display_name"], made["service_account"]) == ("nightly", "penstock-runner")
    tasks = made["pipeline_spec"]["pipeline_spec"]["root"]["dag"]["tasks"]
    assert tasks.keys() == {"make-numbers", "trainer"}


def test_each_run_takes_the_newest_span_of_an_address(server, file):
    address = "gs://bucket/trips/{YYYY}-{MM}-{DD}/*.csv"
    options = ("--host", server.host, "--schedule", "0 3 * * *", "--parameter", "note=x")
    with pytest.raises(UsageError, match=r"--span-from needs a pipeline with one ExampleGen that "):
        call("submit", file, *options, "--span-from", address)
    file.write_text(
        file.read_text().replace(
            "note: {par", "span_from: {parameterType: STRING, isOptional: true}\n      note: {par"
        )
    )
    with pytest.raises(UsageError, match=r"^'trips': expected a folder, and below it \{SPAN\}, or"):
        call("submit", file, *options, "--span-from", "trips")
    with pytest.raises(UsageError, match=r"--span-from must be an address or an absolute path, go"):
        call("submit", file, *options, "--span-from", "data/{SPAN}")
    call("submit", file, *options, "--span-from", address)
    (made,) = server.schedules
    assert made["runtime_config"]["parameters"] == {"note": "x", "span_from": address}


@pytest.mark.parametrize("text", ["0 0 3 * * *", "daily", "", "0 3 * *"])
def test_cron_has_five_fields(text):
    with pytest.raises(UsageError, match=r"--schedule takes the five fields of cron"):
        check_cron(text)


def test_schedule_of_an_empty_variable_starts_no_run(server, file):
    with pytest.raises(UsageError, match="--schedule takes the five fields of cron"):
        call("submit", file, "--host", server.host, "--schedule", "")
    assert not server.schedules


def test_wait_with_schedule_is_refused(server, file):
    with pytest.raises(UsageError, match="--wait follows one run"):
        call("submit", file, "--host", server.host, "--schedule", "0 3 * * *", "--wait")
