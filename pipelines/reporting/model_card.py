"""The model card: what only a person can say of a model; a config holds it as `model_card`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

CONFIG_FIELD = "model_card"
DRAFT = "DRAFT"
_ABOUT = "of_data"


@dataclass(frozen=True)
class ModelCard:
    """A model card, after Mitchell et al., "Model Cards for Model Reporting".

    A text that begins with `DRAFT` is shown as unreviewed.

    Attributes:
        summary: What the model predicts, from what.
        intended_use: What it is for, and by whom.
        limits: Where it must not be used, and what it is known to get wrong.
        owners: Who answers for it.
        data: Where the data is from, and on what terms.
        ethics: Whom its errors may harm.
        licence: Of the model.
        of_data: The config's `data` that these words are about: a run on other data has a card
            without words. None where they are about whatever the config names.
    """

    summary: str = ""
    intended_use: str = ""
    limits: str = ""
    owners: tuple[str, ...] = ()
    data: str = ""
    ethics: str = ""
    licence: str = ""
    of_data: str | None = None

    @property
    def words(self) -> dict[str, str]:
        """The texts by their names."""
        texts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != _ABOUT}
        return {**texts, "owners": ", ".join(self.owners)}

    @property
    def drafts(self) -> list[str]:
        """Names of the texts that are still drafts."""
        return [name for name, text in self.words.items() if text.startswith(DRAFT)]


def read_model_card(config: Mapping[str, Any]) -> ModelCard | None:
    """The model card in a noted config; None where its pipeline has none."""
    raw = config.get(CONFIG_FIELD)
    if not isinstance(raw, Mapping):
        return None
    known = {f.name: raw[f.name] for f in fields(ModelCard) if f.name in raw}
    card = ModelCard(**{**known, "owners": tuple(known.get("owners", ()))})
    # Words about other data would be a claim that nobody has made.
    return card if card.of_data in (None, config.get("data")) else ModelCard()
