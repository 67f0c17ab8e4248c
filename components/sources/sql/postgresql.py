"""PostgreSQL by psycopg: one snapshot for all workers; the server gives types and digest."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Loader
from psycopg.types.numeric import FloatLoader
from psycopg.types.string import TextLoader
from sqlalchemy import Numeric, bindparam, cast, func, literal_column, text
from sqlalchemy.engine import Connection
from sqlalchemy.sql.elements import ColumnElement

from penstock.components.errors import DataError
from penstock.components.sources.sql.database import Database, Feature
from penstock.components.sources.sql.statements import ROWS, Statements
from penstock.components.tfrecord.feature_kind import FeatureKind

_KINDS = {
    FeatureKind.INT: (
        *("bool", "int2", "int4", "int8", "oid", "date"),
        *("time", "timestamp", "timestamptz"),
    ),
    FeatureKind.FLOAT: ("float4", "float8", "numeric"),
    FeatureKind.BYTES: ("text", "varchar", "bpchar", "name", "uuid", "json", "jsonb", "bytea"),
}
_HOLDS = {name: kind for kind, names in _KINDS.items() for name in names}
# A dead connection is noticed within a minute; settings in the address take precedence.
_DEADLINES = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
# All connections give a row the same text; other readers do not change the order of equal keys; the
# planning connection may idle while the workers read.
_SETTINGS = (
    "SET TIME ZONE 'UTC'",
    "SET DateStyle = 'ISO'",
    "SET extra_float_digits = 1",
    "SET bytea_output = 'hex'",
    "SET synchronize_seqscans = off",
    "SET idle_in_transaction_session_timeout = 0",
)


class PostgresDatabase(Database):
    mark_needs_connection = True
    tells_case = True

    def _connect_args(self) -> dict[str, Any]:
        return {key: value for key, value in _DEADLINES.items() if key not in self.url.query}

    def connect(self) -> Connection:
        connection = super().connect()
        adapters = connection.connection.driver_connection.adapters  # type: ignore[union-attr]
        for name, loader in _LOADERS.items():
            adapters.register_loader(name, loader)
        return connection

    def _begin(self, connection: Connection, mark: str | None) -> None:
        connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with self.errors_named():
            if mark is not None:
                self._join(connection, mark)
            for setting in _SETTINGS:
                connection.exec_driver_sql(setting)

    def _join(self, connection: Connection, snapshot: str) -> None:
        try:
            # The server made the name, so it is safe; the statement allows no parameters.
            connection.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        except Exception as error:
            if not isinstance(getattr(error, "orig", None), psycopg.Error):
                raise
            if error.orig.sqlstate not in ("22023", "42704"):  # type: ignore[attr-defined]
                raise
            raise DataError(
                f"{self.shown}: the snapshot of the data ended with the connection that held it "
                "(the server was restarted, or ended the session); start again"
            ) from error

    def mark(self, connection: Connection) -> str:
        """Exports a snapshot that lasts as long as the transaction of `connection`."""
        return connection.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one()

    def features(self, description: Sequence[Any], connection: Connection) -> list[Feature]:
        return [self._feature(one.name, one.type_code, connection) for one in description]

    def _feature(self, column: str, oid: int, connection: Connection) -> Feature:
        info = psycopg.adapters.types.get(oid)
        if info is not None and info.name in _HOLDS:
            return _HOLDS[info.name], oid == info.array_oid
        lookup = text("SELECT typtype, format_type(oid, NULL) FROM pg_type WHERE oid = :oid")
        kind, name = connection.execute(lookup, {"oid": oid}).one()
        if kind == "e":
            return FeatureKind.BYTES, False
        raise DataError(
            f"{self.shown}: column {column!r} has type {name}, which no feature can hold; cast it "
            "in a query, to text say, or leave it out"
        )

    def fetches_key_as_text(self, feature: Feature) -> bool:
        """Returns whether the key is a decimal, which would be loaded as an inexact float."""
        return feature[0] is FeatureKind.FLOAT

    def counts_and_digest(
        self, statements: Statements, connection: Connection
    ) -> tuple[int, int, bytes]:
        """Returns the counts and a digest from one query: sums of two hashes of every row."""
        row: ColumnElement[str] = literal_column(f"CAST({ROWS} AS text)")
        sums = [
            func.sum(cast(func.hashtextextended(row, bindparam(None, seed)), Numeric))
            for seed in (0, 1)
        ]
        count, keys, *digest = connection.execute(statements.counts(*sums)).one()
        return count, keys, repr([str(one) for one in digest]).encode()


class _Tolerant(Loader):
    """Loads a date or time; as the server's text if Python cannot hold it (infinity, 44 BC)."""

    exact: type[Loader]

    def __init__(self, oid: int, context: Any = None) -> None:
        super().__init__(oid, context)
        self._load = self.exact(oid, context).load

    def load(self, data: Any) -> Any:
        try:
            return self._load(data)
        except psycopg.DataError:
            return bytes(data).decode()


def _tolerant(name: str) -> type[Loader]:
    types = psycopg.adapters.types
    exact = psycopg.adapters.get_loader(types[name].oid, pq.Format.TEXT)
    return type(f"Tolerant_{name}", (_Tolerant,), {"exact": exact})


_LOADERS: dict[str, type[Loader]] = {
    "numeric": FloatLoader,
    "uuid": TextLoader,
    "json": TextLoader,
    "jsonb": TextLoader,
    **{name: _tolerant(name) for name in ("date", "timestamp", "timestamptz")},
}
