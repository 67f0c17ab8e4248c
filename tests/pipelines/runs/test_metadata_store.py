import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.runs.metadata_store import MySqlStore

LOGIN = {"PENSTOCK_MYSQL_USER": "me", "PENSTOCK_MYSQL_PASSWORD": "pw"}


def test_mysql_is_encrypted_where_there_is_an_authority(tmp_path):
    assert not MySqlStore("h").connection_config(LOGIN).mysql.HasField("ssl_options")

    (tmp_path / "ca.crt").touch()
    store = MySqlStore("h", tls=str(tmp_path))
    options = store.connection_config(LOGIN).mysql.ssl_options
    assert (options.ca, options.cert, options.key) == (f"{tmp_path}/ca.crt", "", "")

    (tmp_path / "tls.crt").touch()
    options = store.connection_config(LOGIN).mysql.ssl_options
    assert (options.cert, options.key) == (f"{tmp_path}/tls.crt", f"{tmp_path}/tls.key")


def test_an_authority_that_is_missing_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"ca\.crt: no such file; the connection to MySQL needs"):
        MySqlStore("h", tls=str(tmp_path)).connection_config(LOGIN)
