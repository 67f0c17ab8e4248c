import re

import pytest

from penstock.components.errors import UsageError
from penstock.components.trainer.trackers.options import TrackOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "wandb"}, "`kind` must be one of none, mlflow, got 'wandb'"),
        ({"experiment": ""}, "track.experiment must not be empty"),
        ({"patience_seconds": 0}, "track.patience_seconds must be greater than 0, got 0"),
        ({"uri": "http://host"}, "track.uri is MLflow's, track.kind is none"),
        (
            {"kind": "mlflow", "uri": "https://me:planted@host/ml"},
            "track.uri has a login in it, which would be stored with the run: set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD in the environment",
        ),
    ],
)
def test_what_does_not_fit_is_named(options, message):
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        TrackOptions(**options)
    assert "planted" not in str(error.value)


def test_the_default_is_no_tracker():
    assert TrackOptions().kind == "none"
    assert TrackOptions(kind="mlflow", uri="http://host:5000").uri == "http://host:5000"
