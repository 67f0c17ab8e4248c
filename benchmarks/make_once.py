"""Made data that stays: written beside its place and moved there once it is whole."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def make_once(path: Path, make: Callable[[Path], object]) -> Path:
    """`path`, a file or a folder, made unless it is there; `make` writes it to a path beside it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            make(part)
            part.rename(path)
        finally:
            if part.is_dir():
                shutil.rmtree(part)
            part.unlink(missing_ok=True)
    return path
