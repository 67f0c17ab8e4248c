"""Why a node failed, in words for a person."""

import re

from penstock.components.errors import PenstockError

# In-process Beam workers hand an exception over as the text of its traceback.
_QUOTED = re.compile(
    r"^penstock\.\S*?Error: (?P<text>.*?)(?: \[while running .*)?$(?!.*^penstock\.\S*?Error: )",
    re.MULTILINE | re.DOTALL,
)


def reason(error: BaseException) -> str:
    """What went wrong: our own error's text wherever it hides, else kind and last line."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, PenstockError):
            return str(seen)
        seen = seen.__cause__ or seen.__context__
    quoted = _QUOTED.search(str(error))
    if quoted:
        return quoted["text"].strip()
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__
