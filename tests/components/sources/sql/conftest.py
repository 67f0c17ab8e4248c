"""Tables in sqlite, and a PostgreSQL server that runs as long as the tests."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.components.sources.open import open_source
from penstock.components.sources.sql.options import Sql
from tests.free_ports import free_port


@pytest.fixture
def sqlite_table(tmp_path):
    """A function that makes a table `t` of rows in a database file.

    It returns the database's address.
    """

    def make(columns, rows, name="data.db"):
        path = tmp_path / name
        with sqlite3.connect(path) as connection:
            connection.execute(f"CREATE TABLE t ({columns})")
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                connection.executemany(f"INSERT INTO t VALUES ({marks})", rows)
        connection.close()
        return f"sqlite:///{path}"

    return make


@pytest.fixture
def open_sql():
    """A function that opens a query or table."""
    return lambda address, **options: open_source(address, Sql(**options))


@dataclass(frozen=True)
class PostgresServer:
    """A server on loopback; the user `penstock` may log in with `password`."""

    bin: Path
    folder: Path
    port: int
    password: str

    @property
    def address(self):
        """Address of the server, without user name and password."""
        return f"postgresql://127.0.0.1:{self.port}/postgres"

    def connect(self):
        """A psycopg connection whose statements take effect at once."""
        import psycopg

        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="penstock",
            password=self.password,
            dbname="postgres",
            autocommit=True,
        )

    def end_sessions(self, condition="true"):
        """Ends sessions, as an administrator or a failing network would; returns their number."""
        with self.connect() as connection:
            return connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "
                f"pid <> pg_backend_pid() AND backend_type = 'client backend' AND {condition}"
            ).fetchone()[0]

    def control(self, *arguments):
        """Runs pg_ctl, which waits until the server has started or stopped."""
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self.run(
            *(self.bin / "pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-w"),
            *("-o", options, *arguments),
        )

    @staticmethod
    def run(*command):
        """Runs a command, but not as root, because the server refuses to run as root."""
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        subprocess.run(
            [str(word) for word in command],
            check=True,
            timeout=500,
            stdout=subprocess.DEVNULL,
            **(user if os.geteuid() == 0 else {}),
        )


@pytest.fixture(scope="session")
def postgres_server():
    """A server with an empty database."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [shutil.which("initdb")]
    if found[-1] is None:
        pytest.fail("PostgreSQL is not installed; install it: apt-get install postgresql")
    # The server's folder is not below pytest's own folder, which only the user of the tests may
    # enter.
    folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
    server = PostgresServer(Path(found[-1]).parent, folder, free_port(), "pw-3f9c-never-shown")
    (folder / "password").write_text(server.password)
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
        shutil.chown(folder / "password", "postgres", "postgres")
    try:
        server.run(
            *(server.bin / "initdb", "-D", folder / "data", "-U", "penstock", "--no-sync"),
            *("-A", "scram-sha-256", "--pwfile", folder / "password", "-E", "UTF8"),
        )
        server.control("start")
        yield server
        server.control("stop", "-m", "immediate")
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def postgres(postgres_server, monkeypatch):
    """The server, without tables; environment variables contain its login."""
    monkeypatch.setenv("PENSTOCK_SQL_USER", "penstock")
    monkeypatch.setenv("PENSTOCK_SQL_PASSWORD", postgres_server.password)
    postgres_server.end_sessions()  # A test's traceback may keep a session and its locks alive.
    with postgres_server.connect() as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return postgres_server
