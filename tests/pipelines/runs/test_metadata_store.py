import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.runs.metadata_store import MySqlStore, SqliteStore, store_of

LOGIN = {"PENSTOCK_MYSQL_USER": "me", "PENSTOCK_MYSQL_PASSWORD": "pw"}


def test_mysql_is_encrypted_where_there_is_an_authority(tmp_path):
    assert not MySqlStore("h").connection_config(LOGIN).mysql.HasField("ssl_options")

    store = MySqlStore("h", tls=str(tmp_path))
    with pytest.raises(UsageError, match=r"ca\.crt: no such file; an encrypted connection"):
        store.connection_config(LOGIN)
    (tmp_path / "ca.crt").touch()
    options = store.connection_config(LOGIN).mysql.ssl_options
    assert (options.ca, options.cert, options.key) == (f"{tmp_path}/ca.crt", "", "")

    (tmp_path / "tls.crt").touch()
    options = store.connection_config(LOGIN).mysql.ssl_options
    assert (options.cert, options.key) == (f"{tmp_path}/tls.crt", f"{tmp_path}/tls.key")


@pytest.mark.parametrize(
    ("text", "store"),
    [
        ("runs/metadata.sqlite", SqliteStore("runs/metadata.sqlite")),
        ("mysql://db/runs", MySqlStore("db", 3306, "runs")),
        ("mysql://db:3307/runs?tls=/tls", MySqlStore("db", 3307, "runs", "/tls")),
        ("mysql://[::1]:3307/runs?tls=/tls", MySqlStore("::1", 3307, "runs", "/tls")),
        ("mysql://[fe80::1]/runs", MySqlStore("fe80::1", 3306, "runs")),
    ],
)
def test_a_store_is_a_file_or_an_address(text, store):
    assert store_of(text) == store
    assert isinstance(store, SqliteStore) or store_of(store.address) == store


@pytest.mark.parametrize("host", ["[::1]", "db:3306"])
def test_a_host_has_no_brackets_and_no_port(host):
    with pytest.raises(UsageError, match="a MySQL host is a name or an address, got"):
        MySqlStore(host)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        *((f"mysql://db/runs{rest}", r"\?tls=FOLDER with its ca.crt") for rest in (
            "?TLS=/c", "?ssl=", "?tls=", "?tls", "?tls= ", "?tls=/c&tls=", "?tls=/c&a=b", "#tls=/c",
        )),
        ("mysql://me:secret@db/runs", "PENSTOCK_MYSQL_USER and PENSTOCK_MYSQL_PASSWORD log in$"),
        ("mysql://db:x/runs", r"^expected mysql://HOST\[:PORT\]/DATABASE"),
        ("mysql://[::1/runs", "an IPv6 host in brackets"),
        ("mysql://db:0/runs", "a MySQL port is 1 to 65535, got 0"),
        ("mysql://db", "^expected mysql://HOST"),
    ],
)  # fmt: skip
def test_an_address_of_no_server_is_refused(address, message):
    with pytest.raises(UsageError, match=message):
        store_of(address)
