"""The baseline of a run: the model blessed last that is not its own, and its data.

TFX's LatestBlessedModelStrategy gives, once the candidate is blessed, the candidate: the
second run of an unchanged pipeline then has another baseline than the first and evaluates
again, the candidate against itself.
"""

from typing import Any

from tfx import types
from tfx.components.evaluator import constants
from tfx.dsl.compiler import constants as runs
from tfx.dsl.components.common.resolver import ResolverStrategy

CANDIDATE = "candidate"
MODEL = "model"
MODEL_BLESSING = "model_blessing"
STATISTICS = "statistics"


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

    def resolve_artifacts(
        self, store: object, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]]:
        """Reduce the models and blessings to one of each, or none where there is no other."""
        candidate_ids = {artifact.id for artifact in input_dict[CANDIDATE]}
        models = {model.id: model for model in input_dict[MODEL] if model.id not in candidate_ids}
        for blessing in sorted(input_dict[MODEL_BLESSING], key=lambda b: b.id, reverse=True):
            model_id = blessing.get_int_custom_property(
                constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY
            )
            if _is_blessed(blessing) and model_id in models:
                return {**input_dict, MODEL: [models[model_id]], MODEL_BLESSING: [blessing]}
        return {**input_dict, MODEL: [], MODEL_BLESSING: []}


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

    def resolve_artifacts(
        self, store: Any, input_dict: dict[str, list[types.Artifact]]
    ) -> dict[str, list[types.Artifact]]:
        """Reduce statistics and blessings to one of each, or none where there is no other."""
        candidate_ids = {artifact.id for artifact in input_dict[CANDIDATE]}
        others = {s.id: s for s in input_dict[STATISTICS] if s.id not in candidate_ids}
        for blessing in sorted(input_dict[MODEL_BLESSING], key=lambda b: b.id, reverse=True):
            if not _is_blessed(blessing):
                continue
            for found in sorted(_of_same_run(store, blessing), reverse=True):
                if found in others:
                    return {**input_dict, STATISTICS: [others[found]], MODEL_BLESSING: [blessing]}
        return {**input_dict, STATISTICS: [], MODEL_BLESSING: []}


def _of_same_run(store: Any, artifact: types.Artifact) -> set[int]:
    """Ids of all artifacts of the first run that has this one."""
    kind = store.get_context_type(runs.PIPELINE_RUN_CONTEXT_TYPE_NAME).id
    contexts = store.get_contexts_by_artifact(artifact.id)
    of_runs = [context.id for context in contexts if context.type_id == kind]
    return {a.id for a in store.get_artifacts_by_context(min(of_runs))} if of_runs else set()


def _is_blessed(blessing: types.Artifact) -> bool:
    value = blessing.get_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY)
    return value == constants.BLESSED_VALUE
