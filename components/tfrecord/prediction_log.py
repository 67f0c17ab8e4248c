"""Parses PredictionLogs of TensorFlow Serving with the protos of `tensorflow_serving.apis`."""

from typing import Any


def parse_prediction(payload: bytes) -> tuple[Any, dict[str, Any], dict[str, Any]] | None:
    """Returns a call of Predict as (log, inputs, outputs), with NumPy arrays by name.

    Returns None for a log of a method other than Predict. The first use of this function imports
    TensorFlow, which takes seconds.

    Raises:
        ValueError: The bytes are not a PredictionLog.
    """
    from google.protobuf.message import DecodeError
    from tensorflow import make_ndarray
    from tensorflow_serving.apis import prediction_log_pb2

    try:
        log = prediction_log_pb2.PredictionLog.FromString(payload)
    except DecodeError as error:
        raise ValueError("is no PredictionLog of TensorFlow Serving") from error
    if not log.HasField("predict_log"):
        return None
    call = log.predict_log
    inputs, outputs = (
        {name: make_ndarray(tensor) for name, tensor in sorted(tensors.items())}
        for tensors in (call.request.inputs, call.response.outputs)
    )
    return log, inputs, outputs
