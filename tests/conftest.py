import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tfx_dir():
    """The installed tfx package, for the real data in it; found without importing it."""
    return Path(importlib.util.find_spec("tfx").submodule_search_locations[0])


@pytest.fixture(scope="session")
def taxi_csv(tfx_dir):
    """15,002 real taxi trips."""
    return tfx_dir / "examples/chicago_taxi_pipeline/data/simple/data.csv"
