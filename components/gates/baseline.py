"""Which model a candidate is compared with: the last one blessed that is not itself.

TFX's LatestBlessedModelStrategy gives, once the candidate is blessed, the candidate: the
second run of an unchanged pipeline then has another baseline than the first and evaluates
again, the candidate against itself.
"""

from tfx import types
from tfx.components.evaluator import constants
from tfx.dsl.components.common.resolver import ResolverStrategy

CANDIDATE = "candidate"
MODEL = "model"
MODEL_BLESSING = "model_blessing"


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


def _is_blessed(blessing: types.Artifact) -> bool:
    value = blessing.get_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY)
    return value == constants.BLESSED_VALUE
