"""TensorFlow Serving's PredictionLog protos without TensorFlow, as NumPy arrays by name.

The descriptor has only the fields that are read; protobuf skips the others.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.components.tfrecord.example_proto import message_class

# tensorflow_serving/apis/{prediction_log,logging,predict,model}.proto and TensorFlow's tensor.proto
_PROTO = """
name: "penstock/served/prediction_log.proto" package: "penstock.tfrecord" syntax: "proto3"
message_type { name: "Version"
  field { name: "value" number: 1 label: LABEL_OPTIONAL type: TYPE_INT64 } }
message_type { name: "ModelSpec" field { name: "version" number: 2 ONE type_name: "@Version" } }
message_type { name: "LogMetadata"
  field { name: "model_spec" number: 1 ONE type_name: "@ModelSpec" }
  field { name: "timestamp_secs" number: 4 label: LABEL_OPTIONAL type: TYPE_INT64 } }
message_type { name: "Dim"
  field { name: "size" number: 1 label: LABEL_OPTIONAL type: TYPE_INT64 } }
message_type { name: "Shape" field { name: "dim" number: 2 MANY type_name: "@Dim" } }
message_type { name: "Tensor"
  field { name: "dtype" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "tensor_shape" number: 2 ONE type_name: "@Shape" }
  field { name: "tensor_content" number: 4 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "float_val" number: 5 label: LABEL_REPEATED type: TYPE_FLOAT }
  field { name: "double_val" number: 6 label: LABEL_REPEATED type: TYPE_DOUBLE }
  field { name: "int_val" number: 7 label: LABEL_REPEATED type: TYPE_INT32 }
  field { name: "string_val" number: 8 label: LABEL_REPEATED type: TYPE_BYTES }
  field { name: "int64_val" number: 10 label: LABEL_REPEATED type: TYPE_INT64 }
  field { name: "bool_val" number: 11 label: LABEL_REPEATED type: TYPE_BOOL } }
message_type { name: "Request"
  field { name: "inputs" number: 2 MANY type_name: "@Request.InputsEntry" }
  nested_type { name: "InputsEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 ONE type_name: "@Tensor" } } }
message_type { name: "Response"
  field { name: "model_spec" number: 2 ONE type_name: "@ModelSpec" }
  field { name: "outputs" number: 1 MANY type_name: "@Response.OutputsEntry" }
  nested_type { name: "OutputsEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 ONE type_name: "@Tensor" } } }
message_type { name: "PredictLog"
  field { name: "request" number: 1 ONE type_name: "@Request" }
  field { name: "response" number: 2 ONE type_name: "@Response" } }
message_type { name: "PredictionLog"
  field { name: "log_metadata" number: 1 ONE type_name: "@LogMetadata" }
  field { name: "predict_log" number: 6 ONE type_name: "@PredictLog" } }
"""
# Numbers of TensorFlow's DataType: type of the bytes in `tensor_content`, field of single values.
_TYPES = {
    1: (np.float32, "float_val"),
    2: (np.float64, "double_val"),
    3: (np.int32, "int_val"),
    4: (np.uint8, "int_val"),
    5: (np.int16, "int_val"),
    6: (np.int8, "int_val"),
    7: (np.object_, "string_val"),
    9: (np.int64, "int64_val"),
    10: (np.bool_, "bool_val"),
}
_PredictionLog = message_class(_PROTO, "PredictionLog")


def parse_prediction(payload: bytes) -> Any:
    """Returns a PredictionLog, None if it is no call of Predict; ValueError for other bytes."""
    try:
        log: Any = _PredictionLog.FromString(payload)
    except Exception as error:  # protobuf's DecodeError differs between its implementations
        raise ValueError("is no PredictionLog of TensorFlow Serving") from error
    return log if log.HasField("predict_log") else None


def arrays(tensors: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns tensors as arrays; ValueError if one has another type or size."""
    return {name: _array(name, tensor) for name, tensor in tensors.items()}


def _array(name: str, tensor: Any) -> np.ndarray:
    if tensor.dtype not in _TYPES:
        raise ValueError(f"tensor {name!r} has TensorFlow's type number {tensor.dtype}")
    kind, field = _TYPES[tensor.dtype]
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    if tensor.tensor_content:
        return np.frombuffer(tensor.tensor_content, kind).reshape(shape)
    values = list(getattr(tensor, field))
    # A tensor may list fewer values than it has; the last one then fills it.
    values += values[-1:] * (math.prod(shape) - len(values))
    return np.array(values, kind).reshape(shape)
