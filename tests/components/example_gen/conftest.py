import sys

import pytest


@pytest.fixture(scope="module")
def spark():
    """A Spark session with two threads, which tries a failing task up to three times."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = SparkSession.builder.master("local[2,3]").config(map=settings).getOrCreate()
        yield session
        session.stop()
