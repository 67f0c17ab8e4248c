import pickle

import pytest

from penstock.components.example_gen.shared_sources import share_sources
from penstock.components.example_gen.split_options import Split, SplitOptions
from penstock.components.sources.open import open_source
from penstock.components.sources.options import SourceOptions

ONE = SplitOptions((Split("all"),))


def test_workers_load_what_was_shared_and_nothing_stays(tmp_path):
    (tmp_path / "a.csv").write_text("id\n1\n2\n")
    folder = tmp_path / "attempt"
    folder.mkdir()
    source = open_source(str(tmp_path / "a.csv"), SourceOptions())
    with share_sources([(source, ONE)], folder) as shared:
        carried = pickle.loads(pickle.dumps(shared))
        found, splits = carried[0]
        assert (found.fingerprint, splits) == (source.fingerprint, ONE)
        assert carried[0][0] is found
        assert len(pickle.dumps(shared)) < 300
    assert list(folder.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        carried[0]


def test_nothing_stays_of_an_ingest_that_failed(tmp_path):
    with pytest.raises(RuntimeError, match="worker on fire"), share_sources([], tmp_path):
        raise RuntimeError("worker on fire")
    assert list(tmp_path.iterdir()) == []
