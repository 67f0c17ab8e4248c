"""TFX node that prevents the push of a model that cannot be served.

Input: a Model and Examples. Output: an InfraBlessing for the stock Pusher
(`Pusher(infra_blessing=check.outputs["blessing"])`), with `serving_check.json` in it. TFX's
InfraValidator also loads and queries the model, but it compares no answers, and it needs Docker or
the right to create pods. The model runs in a separate session, as in TensorFlow Serving. The check
fails a model that works only with its training code. It also fails a model whose answers for raw
rows differ from its predictions for the same rows after the transformation used in training.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.types.standard_artifacts import Examples, InfraBlessing, Model, TransformGraph
from tfx.utils import path_utils

from penstock.components.errors import DataError, UsageError, short_error
from penstock.components.gates.options import ServingOptions, options_component
from penstock.components.gates.serving_skew import Served, Values, find_skew
from penstock.components.plain import from_json

_TAG = "serve"
_PYTHON_OPS = {"PyFunc", "PyFuncStateless", "EagerPyFunc"}
# The first requests allocate memory and load kernels, so their times are left out if there are
# other requests.
WARM_UP_REQUESTS = 3


@dataclass(frozen=True)
class ServingReport:
    # Why the model cannot be served, one line per reason; empty if it can.
    problems: tuple[str, ...]
    load_seconds: float | None = None
    # Number of requests whose times are in `p50_ms` and `p99_ms`.
    requests: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None


class _UnservableError(Exception):
    """Says why a model cannot be served."""


def check_serving(
    model: str, rows: Sequence[bytes], options: ServingOptions, *, graph: str | None = None
) -> ServingReport:
    """Loads a SavedModel from its folder and sends it serialized Examples, one per request.

    Within `options.max_skew`, the answers must equal the model's predictions for the same rows,
    transformed by the TransformGraph in folder `graph`. If `graph` is None, the answers must equal
    those of the model without TensorFlow's graph optimiser.
    """
    problems: list[str] = []
    began, seconds, times = time.perf_counter(), None, list[float]()
    with closing(tf.compat.v1.Session(graph=tf.Graph())) as session:
        try:
            served = _loaded(session, model)
            seconds = time.perf_counter() - began
            name = _input_of_examples(served, options.signature)
            answers = []
            for number, row in enumerate(rows[: options.requests + WARM_UP_REQUESTS]):
                began = time.perf_counter()
                answers.append(_answer(served, options.signature, {name: [row]}, number))
                times.append((time.perf_counter() - began) * 1000)
            if not times:
                raise _UnservableError("no rows to send")
            skew = find_skew(
                served,
                options.signature,
                rows[: len(answers)],
                answers,
                graph=graph,
                tolerance=options.max_skew,
            )
            problems += [skew] if skew else []
        except _UnservableError as error:
            problems.append(str(error))
    times = times[WARM_UP_REQUESTS:] or times
    p50, p99 = np.percentile(times, (50, 99)).tolist() if times else (None, None)
    if p99 is not None and 0 < options.max_p99_ms < p99:
        problems.append(f"p99 of an answer is {p99:.1f} ms; expected at most {options.max_p99_ms}")
    return ServingReport(tuple(problems), seconds, len(times), p50, p99)


def _loaded(session: Any, model: str) -> Served:
    try:
        with session.graph.as_default():
            loaded = tf.compat.v1.saved_model.load(session, [_TAG], model)
    except (tf.errors.OpError, RuntimeError, OSError, ValueError) as error:
        raise _UnservableError(f"does not load: {_brief(error)}") from error
    graph = loaded.graph_def
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    if python := sorted({node.op for node in nodes} & _PYTHON_OPS):
        raise _UnservableError(f"runs Python ({', '.join(python)}), which no model server has")
    return Served(model, session, loaded.signature_def)


def _input_of_examples(served: Served, signature: str) -> str:
    if signature not in served.signatures:
        # Names that begin with two underscores are TensorFlow's own.
        known = ", ".join(sorted(n for n in served.signatures if not n.startswith("__")))
        raise _UnservableError(f"no signature {signature!r}; it has: {known or 'none'}")
    inputs = served.signatures[signature].inputs
    if [info.dtype for info in inputs.values()] != [tf.string.as_datatype_enum]:
        taken = ", ".join(f"{name} {_type(info)}" for name, info in inputs.items())
        raise _UnservableError(
            f"signature {signature!r} takes {taken}; expected one input of serialized Examples, "
            "string (batch)"
        )
    return str(next(iter(inputs)))


def _answer(served: Served, signature: str, values: Mapping[str, Any], number: int) -> Values:
    try:
        answer = served.run(signature, values)
    except tf.errors.OpError as error:
        raise _UnservableError(f"row {number} fails: {_brief(error)}") from error
    for name, value in answer.items():
        if np.shape(value)[:1] != (1,):
            raise _UnservableError(f"output {name!r} has shape {np.shape(value)} for one row")
        if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all():
            raise _UnservableError(
                f"output {name!r} of row {number} is not finite: {value.tolist()}"
            )
    return answer


def _type(info: Any) -> str:
    shape = tf.TensorShape(info.tensor_shape)
    dims = "any" if shape.rank is None else ", ".join(str(d or "batch") for d in shape.as_list())
    return f"{tf.dtypes.as_dtype(info.dtype).name} ({dims})"


def _brief(error: Exception) -> str:
    return short_error(Exception(getattr(error, "message", error)), 500)


REPORT_NAME = "serving_check.json"
# Custom property and file names that TFX's Pusher reads; TFX's InfraValidator writes the same.
_BLESSED, _FILES = "blessed", ("INFRA_NOT_BLESSED", "INFRA_BLESSED")


@options_component(ServingOptions)
def ServingCheck(  # noqa: N802 - TFX names a node after its function
    model: InputArtifact[Model],
    examples: InputArtifact[Examples],
    blessing: OutputArtifact[InfraBlessing],
    options: Parameter[str],
    transform_graph: InputArtifact[TransformGraph] = None,
) -> None:
    """Loads a model as TensorFlow Serving does, and blesses it if it answers rows of a split.

    The answers must equal the model's predictions for the same rows, transformed as for training;
    otherwise, there is training-serving skew.

    Args:
        model: Output of a Trainer.
        examples: Examples that the model's signature can parse.
        blessing: Says whether the model may be pushed; `serving_check.json` in it has the reasons.
        options: A `ServingOptions`.
        transform_graph: Graph by which the training rows were transformed. Without it, answers are
            compared with those of the model without TensorFlow's graph optimiser.

    Raises:
        UsageError: The Examples lack the split to take rows from.
        DataError: The split has no files.
    """
    asked = from_json(ServingOptions, options)
    rows = _rows(examples, asked.split, asked.requests + WARM_UP_REQUESTS)
    graph = transform_graph.uri if transform_graph is not None else None
    report = check_serving(path_utils.serving_model_path(model.uri), rows, asked, graph=graph)
    with fileio.open(os.path.join(blessing.uri, REPORT_NAME), "w") as file:
        file.write(json.dumps(asdict(report), indent=1) + "\n")
    blessed = not report.problems
    with fileio.open(os.path.join(blessing.uri, _FILES[blessed]), "w") as file:
        file.write("")
    blessing.set_int_custom_property(_BLESSED, int(blessed))
    if blessed:
        print(
            f"serving check: loads in {report.load_seconds:.1f} s; {report.requests} requests, "
            f"p50 {report.p50_ms:.1f} ms, p99 {report.p99_ms:.1f} ms"
        )
    else:
        print(f"serving check: not to be pushed: {'; '.join(report.problems)}")


def _rows(examples: Examples, split: str, count: int) -> list[bytes]:
    splits = artifact_utils.decode_split_names(examples.split_names)
    if split not in splits:
        raise UsageError(f"the Examples have no split {split!r}; choices: {', '.join(splits)}")
    folder = artifact_utils.get_split_uri([examples], split)
    files = sorted(fileio.glob(os.path.join(folder, "*")))
    if not files:
        raise DataError(f"{folder}: no TFRecord files")
    compression = "GZIP" if files[0].endswith(".gz") else ""
    return list(tf.data.TFRecordDataset(files, compression).take(count).as_numpy_iterator())
