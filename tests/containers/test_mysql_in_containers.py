"""The taxi pipeline in containers, with metadata in Debian's MariaDB as the MySQL server."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.free_ports import free_port

pytestmark = [pytest.mark.image, pytest.mark.timeout(1200)]

PATH = f"{os.environ['PATH']}:/usr/sbin"
USER = "penstock"
CACHED = {
    "ShardedExampleGen",
    "StatisticsGen",
    "CuratedSchema",
    "ExampleValidator",
    "ValidationGate",
    "Transform",
}


@dataclass(frozen=True)
class Server:
    host: str
    port: int
    password: str


@pytest.fixture(scope="module")
def server(network):
    # MariaDB does not run as root, and needs a short path for its socket.
    user = {"user": "mysql", "group": "mysql", "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="mariadb-") as folder:
        if user:
            shutil.chown(folder, "mysql", "mysql")
        found = Server(network.host, free_port(), secrets.token_hex(16))
        login = Path(folder, "login.sql")
        login.write_text(
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{found.password}';\n"
            f"GRANT ALL ON penstock.* TO '{USER}'@'%';\n"
        )
        where = ["--no-defaults", f"--datadir={folder}/data"]
        log = Path(folder, "log")
        with log.open("w") as out:
            to_log = {"stdout": out, "stderr": out, "cwd": folder, **user}
            install = [executable("mariadb-install-db"), *where, "--skip-test-db"]
            assert subprocess.run(install, **to_log).returncode == 0, log.read_text()
            process = subprocess.Popen(
                [
                    *(executable("mariadbd"), *where, f"--init-file={login}"),
                    *(f"--bind-address={found.host}", f"--port={found.port}"),
                    *(f"--socket={folder}/socket", f"--pid-file={folder}/pid"),
                ],
                **to_log,
            )
            try:
                wait_for(found, process, log)
                yield found
            finally:
                process.terminate()
                process.wait(60)


def executable(name):
    path = shutil.which(name, path=PATH)
    assert path, f"no {name}: .ci/install mariadb-server"
    return path


def wait_for(server, process, log):
    for _ in range(300):
        assert process.poll() is None, log.read_text()
        with socket.socket() as attempt:
            if attempt.connect_ex((server.host, server.port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def placement(server):
    return f"metadata_mysql: {{host: {server.host}, port: {server.port}}}\nretry: {{times: 0}}"


@pytest.fixture(scope="module")
def mysql_cluster(cluster, network, server):
    return replace(
        cluster,
        network=network.name,
        environment={"PENSTOCK_MYSQL_USER": USER, "PENSTOCK_MYSQL_PASSWORD": server.password},
        store=f"mysql://{server.host}:{server.port}/penstock",
    )


@pytest.fixture(scope="module")
def compiled(mysql_cluster, placement):
    return mysql_cluster.compile_taxi("taxi", placement=placement)


@pytest.fixture(scope="module")
def first(mysql_cluster, compiled):
    return mysql_cluster.run_well(compiled)


@pytest.fixture(scope="module")
def longer(mysql_cluster, placement, first):
    """A second run, with a longer training."""
    longer = mysql_cluster.compile_taxi("longer", "train.max_steps=200", placement=placement)
    return mysql_cluster.run_well(longer)


def test_second_run_uses_cache_and_blessed_model_of_the_first(first, longer):
    assert set(first.states.values()) == {"COMPLETE"}
    assert {node for node, state in longer.states.items() if state == "CACHED"} == CACHED
    assert "baseline_model" not in first.executions["Evaluator"]["inputs"]
    assert longer.input("Evaluator", "baseline_model") == first.output("Trainer", "model")
    assert longer.input("Evaluator", "model") == longer.output("Trainer", "model")
    assert longer.output("Trainer", "model") != first.output("Trainer", "model")


def test_metadata_is_on_the_server_and_no_login_on_the_volume(mysql_cluster, server, longer):
    assert not list(mysql_cluster.volume.rglob("*.sqlite*"))
    texts = [path.read_bytes() for path in mysql_cluster.volume.rglob("*") if path.is_file()]
    assert len(texts) > 50
    assert not [text for text in texts if server.password.encode() in text]


def test_wrong_password_is_one_line_without_the_password(mysql_cluster, compiled, longer):
    password = secrets.token_hex(16)
    wrong = replace(
        mysql_cluster,
        environment={**mysql_cluster.environment, "PENSTOCK_MYSQL_PASSWORD": password},
    )

    done = wrong.run(compiled)

    assert done.returncode == 1
    (told,) = [line for line in done.stdout.splitlines() if "penstock: " in line]
    assert "the metadata store cannot be used: " in told
    assert told.endswith("are PENSTOCK_MYSQL_USER and PENSTOCK_MYSQL_PASSWORD right?")
    assert password not in done.stdout
