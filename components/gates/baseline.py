"""The baseline of a run: the model blessed last that is not its own, and its data.

TFX's LatestBlessedModelStrategy gives, once the candidate is blessed, the candidate: the
second run of an unchanged pipeline then has another baseline than the first and evaluates
again, the candidate against itself.
"""

from collections.abc import Callable
from typing import Any

from tfx import types
from tfx.components.evaluator import constants
from tfx.dsl.compiler import constants as runs
from tfx.dsl.components.common.resolver import ResolverStrategy

CANDIDATE = "candidate"
MODEL = "model"
MODEL_BLESSING = "model_blessing"
STATISTICS = "statistics"

Artifacts = dict[str, list[types.Artifact]]


class LatestOtherBlessedModelStrategy(ResolverStrategy):
    """Resolves the model that was blessed last, the candidate left out.

    Use:
        Resolver(
            strategy_class=LatestOtherBlessedModelStrategy,
            model=Channel(type=Model),
            model_blessing=Channel(type=ModelBlessing),
            candidate=trainer.outputs["model"],
        )

    The order is that of the blessings, not of the models: a model that comes back from the
    cache and is blessed anew is the latest. Looks at artifacts only, never at the store's
    query language, which differs between TFX 1.16 and 1.21.
    """

    def resolve_artifacts(self, store: object, input_dict: Artifacts) -> Artifacts:
        """Reduce the models and blessings to one of each, or none where there is no other."""
        model_id = constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY
        return _latest(input_dict, MODEL, lambda one: [one.get_int_custom_property(model_id)])


class LatestBlessedStatisticsStrategy(ResolverStrategy):
    """Resolves the statistics of the run that blessed a model last, the present ones left out.

    Use:
        Resolver(
            strategy_class=LatestBlessedStatisticsStrategy,
            statistics=Channel(type=ExampleStatistics),
            model_blessing=Channel(type=ModelBlessing),
            candidate=statistics_gen.outputs["statistics"],
        )
    """

    def resolve_artifacts(self, store: Any, input_dict: Artifacts) -> Artifacts:
        """Reduce statistics and blessings to one of each, or none where there is no other."""
        return _latest(input_dict, STATISTICS, lambda one: _of_same_run(store, one))


def _latest(
    input_dict: Artifacts, key: str, meant_by: Callable[[types.Artifact], list[int]]
) -> Artifacts:
    """The latest blessing that means an artifact of `key` other than a candidate, and that one.

    `meant_by` gives the ids that a blessing means; the first that there is counts.
    """
    candidates = {artifact.id for artifact in input_dict[CANDIDATE]}
    others = {one.id: one for one in input_dict[key] if one.id not in candidates}
    for blessing in sorted(input_dict[MODEL_BLESSING], key=lambda one: one.id, reverse=True):
        blessed = blessing.get_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY)
        for found in meant_by(blessing) if blessed == constants.BLESSED_VALUE else ():
            if found in others:
                return {**input_dict, key: [others[found]], MODEL_BLESSING: [blessing]}
    return {**input_dict, key: [], MODEL_BLESSING: []}


def _of_same_run(store: Any, artifact: types.Artifact) -> list[int]:
    """Ids of all artifacts of the first run that has this one, the latest first."""
    kind = store.get_context_type(runs.PIPELINE_RUN_CONTEXT_TYPE_NAME).id
    contexts = store.get_contexts_by_artifact(artifact.id)
    of_runs = [context.id for context in contexts if context.type_id == kind]
    found = store.get_artifacts_by_context(min(of_runs)) if of_runs else ()
    return sorted({one.id for one in found}, reverse=True)
