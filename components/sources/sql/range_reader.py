"""The rows of one range of the key, over connections that may be lost.

After a lost connection reading goes on behind the last row that was handed on, where the
key says surely which row that was; else the whole work must start again.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from penstock.components.errors import DataError
from penstock.components.sources.batches import FIRST_BATCH_ROWS
from penstock.components.sources.sql.database import ConnectionLost, Database
from penstock.components.sources.sql.statements import KeyRange, Statements

# Further tries, and how long each waits: a server that fails over is back within a minute.
_WAIT_SECONDS = (1.0, 4.0, 16.0)

Fetched = Sequence[Sequence[Any]]


class RangeReader:
    """Reads rows of a range of keys, in their order; those without key where the range is None.

    The database is seen in the state `mark`.

    Attributes:
        fetch_rows: How many rows are fetched next; few at first, for they may be large.
    """

    def __init__(
        self,
        database: Database,
        mark: str | None,
        statements: Statements,
        names: Sequence[str],
        keys: KeyRange | None,
    ) -> None:
        self._database = database
        self._mark = mark
        self._statements = statements
        self._names = names
        self._keys = keys
        self.fetch_rows = FIRST_BATCH_ROWS
        self._done = 0
        self._last_key: Any = None
        # Rows handed on that have the last key.
        self._with_last_key = 0

    def rows(self) -> Iterator[Fetched]:
        """The rows, each the key, then the columns; DataError if the connection is lost."""
        waits = iter(_WAIT_SECONDS)
        while True:
            try:
                yield from self._try()
                return
            except ConnectionLost as error:
                wait = next(waits, None)
                if wait is None:
                    raise DataError(
                        f"{self._database.shown}: connection lost, and {len(_WAIT_SECONDS)} more "
                        f"tries have failed ({error}); start again when the server answers"
                    ) from error
                time.sleep(wait)

    def _try(self) -> Iterator[Fetched]:
        with self._database.reading(self._mark) as connection:
            with self._database.errors_named():
                keys = self._rest(connection)
                select = self._statements.read(self._names, keys)
                cursor = self._database.open_cursor(connection, select, self.fetch_rows)
            while True:
                with self._database.errors_named():
                    some = cursor.fetchmany(self.fetch_rows)
                if not some:
                    return
                self._note(some)
                yield some

    def _note(self, rows: Fetched) -> None:
        """Remember where reading would go on."""
        self._done += len(rows)
        last = rows[-1][0]
        same = 0
        for row in reversed(rows):
            if row[0] != last:
                break
            same += 1
        before = self._with_last_key if same == len(rows) and last == self._last_key else 0
        self._last_key, self._with_last_key = last, before + same

    def _rest(self, connection: Connection) -> KeyRange | None:
        """The part of the range that has not been handed on."""
        if not self._done:
            return self._keys
        if self._keys is None:
            raise DataError(
                f"{self._database.shown}: connection lost among rows whose key is NULL, which "
                "have no order; start again, or name a key without NULLs"
            )
        equal = connection.execute(self._statements.count_equal(self._last_key)).scalar_one()
        if equal != self._with_last_key:
            raise DataError(
                f"{self._database.shown}: connection lost among rows with the same key "
                f"{self._last_key!r}, which have no order; start again, or name a unique key"
            )
        return KeyRange(self._last_key, self._keys.high, after_low=True)
