"""Checks every byte of a set of shards at a path, and returns a report of all faults.

Records with right checksums that are neither Examples nor SequenceExamples are a note: other
programs keep other payloads in TFRecords.
"""

from penstock.components.doctor.read_file import Look
from penstock.components.doctor.walk import OnProgress, Report, walk
from penstock.components.tfrecord.example_proto import (
    has_sequences,
    is_example,
    parse_example,
    step_kinds,
)
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.records import Record

# The outermost layer of every record is checked (0.3 us). A full parse takes 2-8 us, more than all
# other checks, and files rarely mix kinds; so only the first hundred records and then every
# hundredth are.
_PARSED_FIRST = 100
_PARSED_EVERY = 100


def verify(path: str, *, on_progress: OnProgress | None = None) -> Report:
    """Checks an Examples artifact, a folder of TFRecords, one file, or files that match a glob.

    A split's folder or a shard inside an artifact is checked against the artifact's manifest.

    Args:
        path: A file, a folder or a glob.
        on_progress: Called after every read of 1 MiB or less, with the number of bytes read so far
            and the size of all files.

    Raises:
        DataError: There are no files to check.
    """
    kinds: dict[str, FeatureKind] = {}
    return walk(path, lambda files: _Examples(kinds), on_progress)


class _Examples(Look):
    """Checks that payloads are of one kind; each record counts as a row, whatever it holds.

    `kinds` collects the kind of each feature list's steps, over all files.
    """

    def __init__(self, kinds: dict[str, FeatureKind]) -> None:
        self._step_kinds = kinds
        self._first_sequence: Record | None = None
        self._sequences = self._records = self._foreign = self._misfits = 0
        self._note = self._fault = ""

    def add(self, record: Record) -> bool:
        self._records += 1
        often = record.number < _PARSED_FIRST or record.number % _PARSED_EVERY == 0
        payload = record.payload
        if not (parse_example(payload) is not None if often else is_example(payload)):
            self._foreign += 1
            self._note = self._note or (
                f"{record.place}: payload is neither a tf.train.Example nor a SequenceExample, it "
                f"begins with {payload[:16]!r}"
            )
        elif has_sequences(payload):
            self._sequences += 1
            self._first_sequence = self._first_sequence or record
            if fault := self._misfit(payload):
                self._misfits += 1
                self._fault = self._fault or f"{record.place}: {fault}"
        return True

    def _misfit(self, payload: bytes) -> str | None:
        """Returns a fault if steps of one feature list differ in kind, which no parser accepts."""
        for name, kinds in step_kinds(parse_example(payload)):
            for kind in kinds:
                expected = self._step_kinds.setdefault(name, kind)
                if kind is not expected:
                    return (
                        f"feature list {name!r} has a step of {kind.value}, expected "
                        f"{expected.value} as in earlier steps; write the record again"
                    )
        return None

    def findings(self, name: str) -> tuple[list[str], list[str]]:
        """Returns faults and notes; SequenceExamples may lack lists, so Examples among them fit."""
        faults, notes = [], []
        if self._note:
            notes.append(f"{name}: {self._note} ({self._of_all(self._foreign)})")
        if self._fault:
            faults.append(f"{name}: {self._fault} ({self._of_all(self._misfits)})")
        first = self._first_sequence
        if first and 2 * self._sequences <= self._records - self._foreign:
            faults.append(
                f"{name}: {first.place}: a SequenceExample among Examples "
                f"({self._of_all(self._sequences)})"
            )
        return faults, notes

    def _of_all(self, count: int) -> str:
        return f"{count:,} of {self._records:,} records are so"
