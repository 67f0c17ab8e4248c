import importlib.util
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    """Files with whole pipelines first; one begun last would keep a single worker busy alone."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def tfx_dir():
    """The installed tfx package, for the real data in it; found without importing it."""
    return Path(importlib.util.find_spec("tfx").submodule_search_locations[0])


@pytest.fixture(scope="session")
def taxi_csv(tfx_dir):
    """15,002 real taxi trips."""
    return tfx_dir / "examples/chicago_taxi_pipeline/data/simple/data.csv"
