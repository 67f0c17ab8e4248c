"""Objects of Google Cloud Storage, on a stand-in for its JSON API."""

import pytest

from penstock.components.errors import DataError
from penstock.components.files.find import find
from penstock.components.sources.open import open_source

CSV = b"id,n\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(1000))


@pytest.mark.slow
def test_objects_of_google(google, read_out):
    google.objects |= {"d/a.csv": CSV, "d/b.csv": CSV, "d/_SUCCESS": b""}
    google.faults += ["503", "reset", "short"]
    for pattern in ("gs://b/d", "gs://b/d/*.csv"):
        source = open_source(pattern)
        assert source.files == ("gs://b/d/a.csv", "gs://b/d/b.csv")
        assert len(read_out(source, parts=3).rows) == 2000
    assert google.faults == []
    files = find("gs://b/d/a.csv", None).files
    assert files[0].sure_version == str(abs(hash(CSV)))
    for address, reason in {
        "gs://b/none.csv": "no such file or folder",
        "gs://closed/a.csv": "permission denied (Forbidden: ",
    }.items():
        with pytest.raises(DataError) as caught:
            open_source(address)
        assert str(caught.value).startswith(f"{address}: {reason}")
