"""Exports a trained model as a SavedModel for serving, and for evaluation by TFMA."""

import os
import posixpath
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.gates.options import PREDICT_FEATURES
from penstock.components.isolation import isolated
from penstock.components.packing.transformed import load_transform
from penstock.components.trainer.input.common import Label, names_of
from penstock.components.trainer.input.parsing import Parser, Spec, padded, parser
from penstock.components.trainer.model_setup import input_names

Signature = Callable[[tf.Tensor], dict[str, tf.Tensor]]
Prepare = Callable[[Mapping[str, tf.Tensor]], Mapping[str, tf.Tensor]]

_DEFAULT = "serving_default"

# AutoGraph would needlessly convert all of Keras and TensorFlow Transform, which takes 4 s.
_on_examples = tf.function(
    input_signature=[tf.TensorSpec([None], tf.string, "examples")], autograph=False
)


def export_model(
    model: keras.Model,
    serving_dir: str,
    *,
    label: Label,
    transform: Any | None = None,
    spec: Spec | None = None,
    feature_lists: Spec | None = None,
    prepare: Prepare | None = None,
    signatures: Mapping[str, Signature] | None = None,
) -> None:
    """Writes a SavedModel that takes serialized `tf.train.Example` records or SequenceExamples.

    | signature | input | output |
    |---|---|---|
    | `serving_default` | `examples`: string[N]; the label may be missing | the predictions |
    | `transform_features` | `examples`: string[N] | the transformed features, and the transformed \
    label if the records have it; only with `transform` |
    | `predict_features` | the transformed features by name | the predictions, which ServingCheck \
    compares with those of `serving_default`; only with `transform`, and if all features are dense \
    and have identifiers as names |

    A model with one output returns it as `outputs`; a dict of outputs keeps its names.
    Outputs of 16 bits (mixed precision) are served as float32.
    To evaluate a model with `transform`, give TFMA `signature_name='serving_default'`, the name of
    the transformed label as `label_key`, and `preprocessing_function_names=['transform_features']`.

    Args:
        model: Model trained on the transformed features, or on those of `spec`.
        serving_dir: `fn_args.serving_model_dir`; a rename puts it in place when it is complete.
        label: Name of the label in the records, or several names; requests need no label. None if
            there is no label.
        transform: `tft.TFTransformOutput` whose features the model takes, if the records are raw.
        spec: Features to parse if there is no `transform`; give exactly one of the two.
        feature_lists: Feature lists of SequenceExamples, in addition to `spec`; see `Input.rows`.
        prepare: Function that the training input applies to the parsed and transformed features;
            None if there is none.
        signatures: Additional signatures, by name.

    Raises:
        DataError: A weight is not finite, or `serving_dir` is not empty.
        UsageError: Both or neither of `transform` and `spec` are given, or `feature_lists` is given
            with `transform`.
    """
    if (transform is None) == (spec is None):
        raise UsageError("export needs either transform or spec")
    if transform is not None and feature_lists is not None:
        raise UsageError("transform takes tf.train.Examples: give feature_lists with spec")
    _check_finite(model)
    if tf.io.gfile.exists(serving_dir) and tf.io.gfile.listdir(serving_dir):
        raise DataError(f"{serving_dir}: already holds files; export to an empty place")
    module = _tracked(model)
    if transform is not None:
        graph = module.transform = transform_graph(transform)
        raw_spec = transform.raw_feature_spec()
        features_of = _transformed(_without(raw_spec, names_of(label, raw_spec)), graph)
        saved = _serve(model, features_of, prepare)
        saved["transform_features"] = _on_examples(_transformed(raw_spec, graph))
    else:
        assert spec is not None
        labels = names_of(label, {**spec, **(feature_lists or {})})
        steps = None if feature_lists is None else _without(feature_lists, labels)
        served = _serve(model, parser(_without(spec, labels), steps), prepare)
        saved = {_DEFAULT: served[_DEFAULT]}
    _save(module, {**saved, **(signatures or {})}, serving_dir)


def _check_finite(model: keras.Model) -> None:
    """Raises DataError for a model that would predict NaN; names its first bad weight."""
    for variable in model.variables:
        # Cast to float32, because bfloat16 is not one of NumPy's float types.
        value = np.asarray(keras.ops.convert_to_numpy(variable), np.float32)
        if not np.isfinite(value).all():
            bad = int(np.size(value) - np.isfinite(value).sum())
            raise DataError(
                f"weight {variable.path!r} has {bad} of {value.size} values that are NaN or inf; "
                "the model is not exported: lower the learning rate or clean the features"
            )


class TransformGraph(tf.Module):
    """The transform graph of a `tft.TFTransformOutput`.

    It replaces `transform_features_layer()`, a legacy Keras model. TensorFlow would trace that
    model for additional signatures during the export, which takes 3 s more.
    """

    def __init__(self, transform: Any) -> None:
        super().__init__()
        self._loader = load_transform(transform.transform_savedmodel_dir)
        # With this attribute, the graph's vocabularies and other resources are saved, too.
        self._loaded = vars(self._loader)

    def __call__(self, features: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        """Computes the transformed features that depend only on the given raw features."""
        return isolated(self._loader.apply_transform_model)(features)

    def needed_for(self, outputs: Collection[str]) -> set[str]:
        """Returns the raw features on which the transformed features `outputs` depend."""
        loader = self._loader
        return {
            name
            for name in loader._structured_inputs
            if not loader._get_fetches_keys(loader._get_feeds([name])) >= set(outputs)
        }


# All signatures of a model share one TransformGraph.
transform_graph = lru_cache(1)(TransformGraph)


class _WithoutOptimizer(tf.train.TrackableView):
    """View of a model without its optimizer.

    TensorFlow cannot track an optimizer with a learning rate schedule.
    """

    @classmethod
    def children(cls, obj: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        is_optimizer = isinstance(obj, keras.optimizers.Optimizer)
        return {} if is_optimizer else super().children(obj, *args, **kwargs)


def _tracked(model: keras.Model) -> tf.Module:
    """Returns the model's variables and resources as TensorFlow objects, without the optimizer.

    TensorFlow Serving runs the graph in a session. If the model were saved directly, Serving would
    restore a copy of Keras' variables and leave the graph's variables uninitialized
    (tensorflow/tensorflow#72963).
    """
    module = tf.Module()
    weights = list(model.weights)
    known = set(map(id, weights))
    module.weights = [variable.value for variable in weights]
    # State of random generators and of metrics.
    module.states = [v.value for v in model.variables if id(v) not in known]
    kinds = (tf.Variable, tf.saved_model.experimental.TrackableResource)  # such as lookup tables
    parts = _WithoutOptimizer(model).descendants()
    module.parts = [part for part in parts if isinstance(part, kinds)]
    return module


def _serve(
    model: keras.Model, features_of: Parser, prepare: Prepare | None
) -> dict[str, Signature]:
    """Returns `serving_default` and, if a signature can take all features, `predict_features`."""
    names = input_names(model)
    specs: dict[str, tf.TypeSpec] = {}

    # `predict` is a separate function, so that both signatures share one trace of the model.
    @tf.function(autograph=False)
    def predict(parsed: dict[str, Any]) -> dict[str, tf.Tensor]:
        features = prepare(parsed) if prepare else parsed
        if names is not None:
            # If there are more features than the model takes, Keras matches them by position.
            features = {name: features[name] for name in names}
        outputs = model(features, training=False)
        outputs = outputs if isinstance(outputs, dict) else {"outputs": outputs}
        # Clients and TFMA do not support bfloat16.
        half = (tf.bfloat16, tf.float16)
        return {n: tf.cast(v, tf.float32) if v.dtype in half else v for n, v in outputs.items()}

    @_on_examples
    def serving_default(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = features_of(examples)
        specs.update({name: tf.type_spec_from_value(value) for name, value in parsed.items()})
        return isolated(predict)(parsed)

    serving_default.get_concrete_function()
    # TensorFlow would alter such argument names as `image/encoded` in a signature.
    if not all(isinstance(s, tf.TensorSpec) and n.isidentifier() for n, s in specs.items()):
        return {_DEFAULT: serving_default}
    taken = {name: tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in specs.items()}
    predict_features = tf.function(lambda **features: predict(features), autograph=False)
    return {
        _DEFAULT: serving_default,
        PREDICT_FEATURES: predict_features.get_concrete_function(**taken),
    }


def _transformed(spec: Spec, graph: TransformGraph) -> Parser:
    def transform_features(examples: tf.Tensor) -> dict[str, Any]:
        return padded(graph(tf.io.parse_example(examples, dict(spec))), examples)

    return transform_features


def _without(spec: Spec, labels: Collection[str]) -> Spec:
    return {name: kind for name, kind in spec.items() if name not in labels}


def _save(module: tf.Module, signatures: dict[str, Signature], serving_dir: str) -> None:
    parent, name = posixpath.split(os.fspath(serving_dir).rstrip("/"))
    temporary = posixpath.join(parent, f".{name}.tmp")
    for leftover in (temporary, serving_dir):
        if tf.io.gfile.exists(leftover):
            tf.io.gfile.rmtree(leftover)
    tf.saved_model.save(module, temporary, signatures=signatures)
    tf.io.gfile.rename(temporary, serving_dir)
