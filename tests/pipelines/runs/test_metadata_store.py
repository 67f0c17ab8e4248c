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
    "rest",
    ["?TLS=/c", "?ssl=", "?tls=", "?tls", "?tls=%20", "?tls=/c&tls=", "?tls=/c&a=b", "#tls=/c"],
)
def test_what_might_have_encrypted_is_not_passed_over(rest):
    with pytest.raises(UsageError) as error:
        store_of(f"mysql://db/runs{rest}")
    assert str(error.value) == (
        "mysql://db:3306/runs: only one ?tls=FOLDER may follow, the folder with its ca.crt"
    )


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "mysql://me:secret@db/runs",
            "PENSTOCK_MYSQL_USER and PENSTOCK_MYSQL_PASSWORD log in, leave them out of the address",
        ),
        (
            "mysql://db:x/runs",
            "no address mysql://HOST[:PORT]/DATABASE: Port could not be cast to integer value as "
            "'x'; an IPv6 host stands in brackets",
        ),
        (
            "mysql://[::1/runs",
            "no address mysql://HOST[:PORT]/DATABASE: Invalid IPv6 URL; an IPv6 host stands in "
            "brackets",
        ),
        ("mysql://db:0/runs", "a MySQL port is 1 to 65535, got 0"),
        ("mysql://db", "the MySQL database needs a name"),
    ],
)
def test_an_address_of_no_server_is_refused(address, message):
    with pytest.raises(UsageError) as error:
        store_of(address)
    assert str(error.value) == message
