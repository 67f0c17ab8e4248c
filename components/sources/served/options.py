"""Options of logs of served models."""

from dataclasses import dataclass

from penstock.components.sources.options import RowFileOptions

REQUEST_ID = "request_id"


@dataclass(frozen=True)
class Requests(RowFileOptions):
    """Logs of requests to a served model: TensorFlow Serving's PredictionLogs, KServe's logger.

    Attributes:
        labels_file: Table of labels that came later, in any file that is recognised as a table;
            its other columns are added to the rows with the same value of `key`.
        key: Column of the rows and of the labels by which they are joined.
    """

    kind: str = "requests"
    labels_file: str | None = None
    key: str = REQUEST_ID
