"""What only a person can say of a model; a pipeline's config holds it as `model_card`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

CONFIG_FIELD = "model_card"


@dataclass(frozen=True)
class ModelCard:
    """A model card, after Mitchell et al., "Model Cards for Model Reporting".

    Attributes:
        summary: What the model predicts, from what.
        intended_use: What it is for, and by whom.
        limits: Where it must not be used, and what it is known to get wrong.
        owners: Who answers for it.
        data: Where the data is from, and on what terms.
        ethics: Whom its errors may harm.
        licence: Of the model.
    """

    summary: str = ""
    intended_use: str = ""
    limits: str = ""
    owners: tuple[str, ...] = ()
    data: str = ""
    ethics: str = ""
    licence: str = ""


def read_model_card(config: Mapping[str, Any]) -> ModelCard | None:
    """The model card in a noted config; None where its pipeline has none."""
    raw = config.get(CONFIG_FIELD)
    if not isinstance(raw, Mapping):
        return None
    known = {f.name: raw[f.name] for f in fields(ModelCard) if f.name in raw}
    return ModelCard(**{**known, "owners": tuple(known.get("owners", ()))})
