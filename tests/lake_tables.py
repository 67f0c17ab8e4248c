"""Tables of Delta Lake and Iceberg, written by deltalake and by pyiceberg."""

import ctypes
import struct

import pyarrow as pa
import pyarrow.parquet as pq
from reading import rows_of


class Exported:
    """An Arrow table with `__arrow_c_stream__`, which pyarrow's tables have from version 14.

    Some packages read tables through this method.
    """

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        self._stream = (ctypes.c_void_p * 5)()
        reader = pa.RecordBatchReader.from_batches(self._table.schema, self._table.to_batches())
        reader._export_to_c(ctypes.addressof(self._stream))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = (
            ctypes.py_object,
            [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
        )
        return new(ctypes.addressof(self._stream), b"arrow_array_stream", None)


def read(source, parts=2):
    """The rows of a source, read in `parts` parts; sorted by the column `id`, if there is one."""
    return sorted(rows_of(source, parts), key=lambda row: row.get("id", 0))


def write_delta(place, columns, **options):
    """Creates a table, or appends to it; `columns` is a dict of arrays."""
    from deltalake import write_deltalake

    write_deltalake(str(place), Exported(pa.table(columns)), **{"mode": "append", **options})


def deletion_vector(rows):
    """An inline `deletionVector` for a file's add action; it deletes these rows of the file."""
    from pyroaring import BitMap64

    bits = struct.pack("<i", 1681511377) + BitMap64(rows).serialize()
    padded = bits + b"\0" * (-len(bits) % 4)
    text = "".join(_base85(word) for (word,) in struct.iter_unpack(">I", padded))
    return {
        "storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(bits),
        "cardinality": len(rows),
    }  # fmt: skip


def _base85(word):
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    return "".join(digits[word // 85**power % 85] for power in (4, 3, 2, 1, 0))


class IcebergTable:
    """An Iceberg table in a sqlite catalog, with data files written by pyarrow.

    `store` puts a file into a store and returns its address; `properties` are the catalog's.
    """

    def __init__(
        self, folder, schema, spec=None, store=lambda path: f"file://{path}", **properties
    ):
        from pyiceberg.catalog.sql import SqlCatalog
        from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC

        self.folder = folder
        self.uri = f"sqlite:///{folder}/catalog.db"
        self._store = store
        properties = {"warehouse": f"file://{folder}/warehouse", **properties}
        self.catalog = SqlCatalog("lake", uri=self.uri, **properties)
        self.catalog.create_namespace("db")
        spec = spec or UNPARTITIONED_PARTITION_SPEC
        self.table = self.catalog.create_table(
            "db.trips", schema, partition_spec=spec, properties={"format-version": "2"}
        )

    @property
    def metadata(self):
        return self.table.metadata_location.removeprefix("file://")

    def append(self, columns, *, partition=(), ids=True):
        """Adds a data file with these columns; returns the snapshot's id."""
        return self._put(columns, partition=partition, ids=ids, content=0)

    def delete(self, path, rows):
        """Adds a file of positional deletes for a data file; returns the snapshot's id."""
        columns = {"file_path": [f"file://{path}"] * len(rows), "pos": rows}
        return self._put(columns, partition=(), ids=False, content=1)

    def delete_equal(self, columns):
        """Adds a file of equality deletes, which delete the rows with these values."""
        ids = [field.field_id for field in self.table.schema().fields if field.name in columns]
        return self._put(columns, partition=(), ids=True, content=2, equality_ids=ids)

    def add_deletion_vector(self):
        """Adds a file that claims to contain a deletion vector, but does not."""
        return self._put({"pos": [0]}, partition=(), ids=False, content=1, form="PUFFIN")

    def _put(self, columns, *, partition, ids, content, equality_ids=None, form="PARQUET"):
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        by_name = {field.name: field.field_id for field in self.table.schema().fields}
        table = pa.table(columns)
        fields = [
            field.with_metadata({"PARQUET:field_id": str(by_name[field.name])}) if ids else field
            for field in table.schema
        ]
        self.last = self.folder / f"data-{len(list(self.folder.glob('data-*')))}.parquet"
        pq.write_table(table.cast(pa.schema(fields)), self.last)
        file = DataFile.from_args(
            content=DataFileContent(content), file_path=self._store(self.last),
            file_format=FileFormat(form), partition=Record(*partition),
            record_count=table.num_rows, file_size_in_bytes=self.last.stat().st_size,
            sort_order_id=None, column_sizes={}, value_counts={}, null_value_counts={},
            nan_value_counts={}, lower_bounds={}, upper_bounds={}, key_metadata=None,
            split_offsets=None, equality_ids=equality_ids, spec_id=self.table.spec().spec_id,
        )  # fmt: skip
        with self.table.transaction() as change, change.update_snapshot().fast_append() as update:
            update.append_data_file(file)
        return self.table.current_snapshot().snapshot_id
