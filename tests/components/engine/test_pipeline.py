import socket

import pytest

from penstock.components.engine.options import EngineOptions
from penstock.components.engine.pipeline import engine_pipeline
from penstock.components.errors import UsageError


def test_an_engine_that_is_not_there_is_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]  # bound, but no process listens on it
        engine = EngineOptions(runner="portable", job_endpoint=f"127.0.0.1:{port}", parallelism=1)
        text = rf"portable: nothing answers at 127.0.0.1:{port} \(.*refused\)"
        with pytest.raises(UsageError, match=text), engine_pipeline(engine):
            pass


def test_a_job_server_that_is_not_there_is_one_line():
    with socket.create_server(("localhost", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
        engine = EngineOptions(
            runner="flink", flink_master=address, job_server_jar="/no", parallelism=1
        )
        with (
            pytest.raises(UsageError, match=r"`job_server_jar`: no file /no$"),
            engine_pipeline(engine),
        ):
            pass
