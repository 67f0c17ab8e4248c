"""PostgreSQL through psycopg: a server-side cursor in a read-only transaction.

The server states the types of the columns.
"""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Loader
from psycopg.types.numeric import FloatLoader
from psycopg.types.string import TextLoader
from sqlalchemy import text
from sqlalchemy.engine import Connection

from penstock.components.errors import DataError
from penstock.components.sources.sql.database import Database, Feature
from penstock.components.tfrecord.feature_kind import FeatureKind

_HOLDS = {
    **dict.fromkeys(("bool", "int2", "int4", "int8", "oid"), FeatureKind.INT),
    **dict.fromkeys(("date", "time", "timestamp", "timestamptz"), FeatureKind.INT),
    **dict.fromkeys(("float4", "float8", "numeric"), FeatureKind.FLOAT),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "uuid"), FeatureKind.BYTES),
    **dict.fromkeys(("json", "jsonb", "bytea"), FeatureKind.BYTES),
}
# A dead connection is noticed within a minute; settings in the address take precedence.
_DEADLINES = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
# With these settings, values have the same text on every server, scans of the same table by other
# clients do not change the order of the rows, and the connection may idle while rows are written.
_SETTINGS = (
    "SET TIME ZONE 'UTC'",
    "SET DateStyle = 'ISO'",
    "SET extra_float_digits = 1",
    "SET bytea_output = 'hex'",
    "SET synchronize_seqscans = off",
    "SET idle_in_transaction_session_timeout = 0",
)


class PostgresDatabase(Database):
    tells_case = True

    def _connect_args(self) -> dict[str, Any]:
        return {key: value for key, value in _DEADLINES.items() if key not in self.url.query}

    def connect(self) -> Connection:
        connection = super().connect()
        adapters = connection.connection.driver_connection.adapters  # type: ignore[union-attr]
        for name, loader in _LOADERS.items():
            adapters.register_loader(name, loader)
        return connection

    def _begin(self, connection: Connection) -> None:
        connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        for setting in _SETTINGS:
            connection.exec_driver_sql(setting)

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


def _tolerant(name: str) -> type[Loader]:
    """Returns a loader of dates or times.

    It keeps values outside Python's range (44 BC) as text.
    """
    oid = psycopg.adapters.types[name].oid
    exact: Any = psycopg.adapters.get_loader(oid, pq.Format.TEXT)

    class Tolerant(Loader):
        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self._load = exact(oid, context).load

        def load(self, data: Any) -> Any:
            try:
                return self._load(data)
            except psycopg.DataError:
                return bytes(data).decode()

    return Tolerant


_LOADERS: dict[str, type[Loader]] = {
    "numeric": FloatLoader,
    "uuid": TextLoader,
    "json": TextLoader,
    "jsonb": TextLoader,
    **{name: _tolerant(name) for name in ("date", "timestamp", "timestamptz")},
}
