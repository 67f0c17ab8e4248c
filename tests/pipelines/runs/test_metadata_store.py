import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.runs.metadata_store import MySqlStore, SqliteStore, store_of

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
    with pytest.raises(
        UsageError, match=r"ca\.crt: no such file; an encrypted connection to MySQL needs"
    ):
        MySqlStore("h", tls=str(tmp_path)).connection_config(LOGIN)


def test_a_store_is_a_file_or_an_address():
    assert store_of("runs/metadata.sqlite") == SqliteStore("runs/metadata.sqlite")
    assert store_of("mysql://db/runs") == MySqlStore("db", 3306, "runs")
    tls = MySqlStore("db", 3307, "runs", "/tls")
    assert store_of(tls.address) == tls


def test_an_ipv6_host_stands_in_brackets():
    store = store_of("mysql://[::1]:3307/runs?tls=/tls")
    assert store == MySqlStore("::1", 3307, "runs", "/tls")
    assert store.address == "mysql://[::1]:3307/runs?tls=/tls"
    assert store_of("mysql://[fe80::1]/runs") == MySqlStore("fe80::1", 3306, "runs")


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
