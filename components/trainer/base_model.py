"""A warm start: the weights of the model blessed last, given to a new one before it trains."""

import hashlib
import posixpath
from typing import Any

import keras
import tensorflow as tf
from ml_metadata.proto import metadata_store_pb2
from tfx import types
from tfx.dsl.components.common.resolver import ResolverStrategy
from tfx.dsl.input_resolution.strategies.latest_blessed_model_strategy import (
    LatestBlessedModelStrategy,
)

from penstock.components.trainer.model_setup import BuildModel

MODEL, MODEL_BLESSING, EXAMPLES = "model", "model_blessing", "examples"
# Of a weight in what `export` saved, by its place among the model's weights.
_KEY = "weights/{}/.ATTRIBUTES/VARIABLE_VALUE"
_EMBEDDINGS = "/embeddings"


class LatestBlessedOfOtherDataStrategy(ResolverStrategy):
    """TFX's LatestBlessedModelStrategy over the models that were not trained on these Examples.

    So a run without new data has the base model that the run before had, and is served from the
    cache, where it would train its own model further each time.

    Use:
        Resolver(
            strategy_class=LatestBlessedOfOtherDataStrategy,
            model=Channel(type=Model),
            model_blessing=Channel(type=ModelBlessing),
            examples=transform.outputs["transformed_examples"],
        )
    """

    def resolve_artifacts(
        self, store: Any, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]]:
        """Reduce the models and blessings to one of each, or none where there is no other."""
        given = {artifact.id for artifact in input_dict[EXAMPLES]}
        models = [m for m in input_dict[MODEL] if not given <= _made_from(store, m.id)]
        blessings = list(input_dict[MODEL_BLESSING])
        found = LatestBlessedModelStrategy().resolve_artifacts(
            store, {MODEL: models, MODEL_BLESSING: blessings}
        )
        return {**input_dict, **(found or {MODEL: [], MODEL_BLESSING: []})}


def _made_from(store: Any, artifact_id: int) -> set[int]:
    """Ids of all inputs of the executions that gave an artifact."""
    kinds = metadata_store_pb2.Event
    made = store.get_events_by_artifact_ids([artifact_id])
    executions = {event.execution_id for event in made if event.type == kinds.OUTPUT}
    events = store.get_events_by_execution_ids(executions) if executions else []
    return {event.artifact_id for event in events if event.type == kinds.INPUT}


def warm_started(build_model: BuildModel, base: str | None, transform_graph: str) -> BuildModel:
    """`build_model`, with the weights of a base model where place and shape agree.

    An embedding has a row for each entry of a vocabulary: it is taken only where all vocabularies
    are those of the base model. The optimizer begins anew.

    Args:
        build_model: Makes and compiles a model.
        base: Folder of the SavedModel that `export` wrote; without one nothing changes.
        transform_graph: The new model's `fn_args.transform_graph_path`.
    """
    if base is None:
        return build_model

    def build() -> keras.Model:
        model = build_model()
        same = _vocabularies(base) == _vocabularies(f"{transform_graph}/transform_fn")
        reader = tf.train.load_checkpoint(posixpath.join(base, "variables", "variables"))
        shapes = reader.get_variable_to_shape_map()
        taken = 0
        for number, weight in enumerate(model.weights):
            key = _KEY.format(number)
            fits = shapes.get(key) == list(weight.shape)
            if fits and (same or not weight.path.endswith(_EMBEDDINGS)):
                weight.assign(reader.get_tensor(key))
                taken += 1
        print(f"warm start: {taken} of {len(model.weights)} weights are those of {base}")
        return model

    return build


def _vocabularies(saved_model: str) -> dict[str, str]:
    """Digest of each file among a SavedModel's assets, by name."""
    folder = posixpath.join(saved_model, "assets")
    names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
    digests = {}
    for name in names:
        with tf.io.gfile.GFile(posixpath.join(folder, name), "rb") as file:
            digests[name] = hashlib.sha256(file.read()).hexdigest()
    return digests
