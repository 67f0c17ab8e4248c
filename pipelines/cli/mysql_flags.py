"""The flags of commands that know a metadata store in MySQL."""

from typing import Annotated

import typer

from penstock.pipelines.runs.metadata_store import MYSQL_PASSWORD, MYSQL_USER, MySqlStore

PORT, DATABASE = MySqlStore.port, MySqlStore.database

Host = Annotated[
    str | None,
    typer.Option(help=f"MySQL server instead; {MYSQL_USER} and {MYSQL_PASSWORD} log in."),
]
Port = Annotated[int, typer.Option(help="Its port.")]
Database = Annotated[str, typer.Option(help="Its database.")]
Tls = Annotated[
    str | None, typer.Option(help="Folder with ca.crt, tls.crt, tls.key: encrypts the way there.")
]


def mysql_store(host: str | None, port: int, database: str, tls: str | None) -> MySqlStore | None:
    """The store that the flags mean; None where they name no host.

    Raises:
        UsageError: They mean no server.
    """
    return None if host is None else MySqlStore(host, port, database, tls)
