"""Resolvers of the model that an earlier run blessed last, and of that run's statistics.

Each resolver takes as inputs all artifacts of the kind that it returns, and all model blessings
(`model_blessing`); `blocks/resolvers.py` creates the nodes.

After the candidate is blessed, TFX's LatestBlessedModelStrategy returns the candidate itself. With
it, the second run of an unchanged pipeline would have a different baseline from the first, and
would evaluate again.
"""

from collections.abc import Callable
from typing import Any

from tfx import types
from tfx.dsl.compiler import constants as runs
from tfx.dsl.components.common.resolver import ResolverStrategy

CANDIDATE = "candidate"
EXAMPLES = "examples"
MODEL = "model"
MODEL_BLESSING = "model_blessing"
STATISTICS = "statistics"
# Copied from `tfx.components.evaluator.constants`, whose import loads TensorFlow: 5 s of CPU.
BLESSED, CURRENT_MODEL_ID, BLESSED_VALUE = "blessed", "current_model_id", 1

Artifacts = dict[str, list[types.Artifact]]


class LatestOtherBlessedModelStrategy(ResolverStrategy):
    """Resolves the `model` that was blessed last, other than the `candidate`.

    The blessings are sorted by time, not the models, so a cached model that is blessed again is the
    latest. No filter queries are sent to the metadata store, since their language differs between
    TFX 1.16 and 1.21.
    """

    def resolve_artifacts(self, store: object, input_dict: Artifacts) -> Artifacts:
        return _latest(input_dict, MODEL, _model_id, _ids(input_dict[CANDIDATE]))


class LatestBlessedOfOtherDataStrategy(ResolverStrategy):
    """Resolves the last blessed `model` that was not trained on the given `examples`.

    A run without new data therefore starts from the same base model as the run before, and uses the
    cache. If the base were simply the last blessed model, each run without new data would further
    train the model of the run before.
    """

    def resolve_artifacts(self, store: Any, input_dict: Artifacts) -> Artifacts:
        given = _ids(input_dict[EXAMPLES])
        own = {m.id for m in input_dict[MODEL] if given <= _made_from(store, m.id)}
        return _latest(input_dict, MODEL, _model_id, own)


class LatestBlessedStatisticsStrategy(ResolverStrategy):
    """Resolves the `statistics` of the run that blessed a model last, except this run.

    `candidate` is the statistics of this run.
    """

    def resolve_artifacts(self, store: Any, input_dict: Artifacts) -> Artifacts:
        own = _ids(input_dict[CANDIDATE])
        return _latest(input_dict, STATISTICS, lambda one: _of_same_run(store, one), own)


def _latest(
    input_dict: Artifacts,
    key: str,
    meant_by: Callable[[types.Artifact], list[int]],
    own: set[int],
) -> Artifacts:
    """Returns the latest blessed artifact of `key` that is not in `own`, and its blessing.

    `meant_by` returns ids of artifacts to which a blessing may belong; the first id of an artifact
    in `input_dict[key]` counts.
    """
    others = {one.id: one for one in input_dict[key] if one.id not in own}
    for blessing in sorted(input_dict[MODEL_BLESSING], key=lambda one: one.id, reverse=True):
        blessed = blessing.get_int_custom_property(BLESSED)
        for found in meant_by(blessing) if blessed == BLESSED_VALUE else ():
            if found in others:
                return {**input_dict, key: [others[found]], MODEL_BLESSING: [blessing]}
    return {**input_dict, key: [], MODEL_BLESSING: []}


def _ids(artifacts: list[types.Artifact]) -> set[int]:
    return {artifact.id for artifact in artifacts}


def _model_id(blessing: types.Artifact) -> list[int]:
    return [blessing.get_int_custom_property(CURRENT_MODEL_ID)]


def _made_from(store: Any, artifact_id: int) -> set[int]:
    made = store.get_events_by_artifact_ids([artifact_id])
    executions = {event.execution_id for event in made if event.type == event.OUTPUT}
    events = store.get_events_by_execution_ids(executions) if executions else []
    return {event.artifact_id for event in events if event.type == event.INPUT}


def _of_same_run(store: Any, artifact: types.Artifact) -> list[int]:
    """Returns the ids of all artifacts in the first run that contains `artifact`, latest first."""
    kind = store.get_context_type(runs.PIPELINE_RUN_CONTEXT_TYPE_NAME).id
    contexts = store.get_contexts_by_artifact(artifact.id)
    of_runs = [context.id for context in contexts if context.type_id == kind]
    found = store.get_artifacts_by_context(min(of_runs)) if of_runs else ()
    return sorted({one.id for one in found}, reverse=True)
