import gc

import pytest

from penstock.components.memory import imports_that_stay


@pytest.fixture(autouse=True)
def thawed():
    yield
    gc.unfreeze()


def test_objects_of_a_block_are_no_longer_searched_for_garbage():
    with imports_that_stay():
        assert not gc.isenabled()
        kept = []
    assert gc.isenabled()
    assert not any(one is kept for one in gc.get_objects())


def test_collection_that_a_caller_switched_off_stays_off():
    gc.disable()
    try:
        with imports_that_stay():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
