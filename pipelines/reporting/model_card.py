"""Model card in a config: statements about a model that only people can make."""

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
        summary: What the model predicts, and from which data.
        intended_use: Purpose and users.
        limits: Uses to avoid and known weaknesses.
        owners: People responsible for the model.
        data: Origin and licence of the data.
        ethics: People whom errors of the model may harm.
        licence: Licence of the model.
        of_data: Value of the config's `data` to which the card applies; a run on other data gets an
            empty card. None means that the card applies to all data.
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
        """Texts of the card by field name."""
        texts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != _ABOUT}
        return {**texts, "owners": ", ".join(self.owners)}

    @property
    def drafts(self) -> list[str]:
        return [name for name, text in self.words.items() if text.startswith(DRAFT)]


def read_model_card(config: Mapping[str, Any]) -> ModelCard | None:
    raw = config.get(CONFIG_FIELD)
    if not isinstance(raw, Mapping):
        return None
    known = {f.name: raw[f.name] for f in fields(ModelCard) if f.name in raw}
    card = ModelCard(**{**known, "owners": tuple(known.get("owners", ()))})
    # On other data, the card would make statements that its authors did not make.
    return card if card.of_data in (None, config.get("data")) else ModelCard()
