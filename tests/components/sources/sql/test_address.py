import pytest

from penstock.components.errors import DataError, UsageError
from penstock.components.sources.sql.database import Database, Login, parse_address, read_login

SECRET = "pw-3f9c"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://reader:{SECRET}@host/db",
        f"postgresql://reader:{SECRET}/with@host/db",
        f"mssql+pyodbc://?odbc_connect=DRIVER%3D%7Bx%7D%3BPWD%3D{SECRET}",
        f"reader:{SECRET}@host/db",
        f"nonsense {SECRET}@",
    ],
)
def test_an_address_with_a_password_is_refused_and_not_repeated(address):
    with pytest.raises(UsageError) as caught:
        parse_address(address)
    assert SECRET not in str(caught.value)
    if "://" in address:
        assert "set PENSTOCK_SQL_PASSWORD or a `credentials_file` instead" in str(caught.value)


def test_an_address_without_one_is_taken():
    url = parse_address("postgresql://reader@host:5433/db?sslmode=require&passfile=/etc/pgpass")
    assert url.drivername == "postgresql+psycopg"
    assert Database(url, None).shown == "postgresql+psycopg://reader@host:5433/db"


def test_the_login_is_of_the_file_or_else_the_environment(tmp_path, monkeypatch):
    assert read_login(None) == Login(None, None)
    monkeypatch.setenv("PENSTOCK_SQL_USER", "me")
    monkeypatch.setenv("PENSTOCK_SQL_PASSWORD", "a=b")
    assert read_login(None) == Login("me", "a=b")
    file = tmp_path / "login"
    file.write_text("# reader\n\nuser = you\npassword = c=d\n")
    assert read_login(str(file)) == Login("you", "c=d")


def test_a_credentials_file_that_is_not_understood_is_not_repeated(tmp_path):
    file = tmp_path / "login"
    file.write_text(f"user = you\n{SECRET}\n")
    with pytest.raises(DataError, match=r"login: line 2: expected `user = \.\.\.` or") as caught:
        read_login(str(file))
    assert SECRET not in str(caught.value)
    with pytest.raises(DataError, match=r"none: cannot read the credentials \(No such file"):
        read_login(str(tmp_path / "none"))
