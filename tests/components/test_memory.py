import gc

from penstock.components.memory import without_collection


def test_collection_that_a_caller_switched_off_stays_off():
    gc.disable()
    try:
        with without_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
