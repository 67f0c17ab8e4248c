import pytest

from penstock.components.errors import UsageError
from penstock.components.files.address import check_no_secret, masked
from penstock.components.files.secrets import hide_secret, secret_kind, without_secrets

SECRET = "hunter22"


@pytest.mark.parametrize(
    ("address", "shown", "kind"),
    [
        *(
            (f"https://h/a{mark}{name}={SECRET}", "https://h/a", f"the value of {name!r}")
            for mark in ("?", "?b=1&", "#", ";")
            for name in ("key", "auth", "jwt", "code", "subscription-key", "X-Amz-Signature")
        ),
        (f"https://{SECRET}@h/a", "https://***@h/a", "a user name in a web address"),
        (f"https://{SECRET}:@h/a", "https://***@h/a", "a user name in a web address"),
        (f"https://bob:{SECRET}@h/a", "https://***@h/a", "a password in an address"),
        (f"s3://AKIA{'A1' * 8}/a", "***", "an AWS access key"),
        *(
            (f"{address}?location=EU&{name}={SECRET}", address, f"the value of {name!r}")
            for address in ("bigquery://p/d", "postgresql://h/db", "mssql+pyodbc://h/db")
            for name in ("sslkey", "key_file", "credentials_base64", "connection_string", "token")
        ),
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_repeated(address, shown, kind):
    with pytest.raises(UsageError) as caught:
        check_no_secret(address, "X")
    assert str(caught.value) == f"{shown}: the address holds a secret ({kind}); X"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("code", "9f3ab1c"),
        ("signature", "serving_default"),
        ("primary_key", "trip_id"),
        *(
            ("", text)
            for text in (
                "the first pass: 200 rows, each key: its code",
                "mysql --password --host db",
                "da39a3ee5e6b4b0d3255bfef95601890afd80709",
                "penstock.pipelines.taxi.features.preprocessing_fn",
                "12:30@noon",
                "//server/share/a.csv",
                "trips/a;b.csv",
                "https://$USER@h/a?page=2",
                "https://h/a@b?page=2&sort=key#top",
                "s3://bucket/keys/code=5/a:b@c.csv",
                "hdfs://namenode:8020/data/*.csv",
                "sqlite:///file:trips.db?mode=ro&uri=true",
                "mysql://h/db?tls=/certificates",
                "postgresql://reader@h:5432/db?sslmode=require&sslkey=/etc/key.pem",
                "postgresql://h/db?application_name=a&connect_timeout=5&sslrootcert=/etc/ca.crt",
                "bigquery://p/d?location=EU&credentials_base64=${BIGQUERY_KEY}",
            )
        ),
    ],
)
def test_what_holds_no_secret_is_shown(name, text):
    assert secret_kind(name, text) is None
    assert hide_secret(name, text) == text
    check_no_secret(text, "X")


@pytest.mark.parametrize("name", ["db.pass", "account_key"])
def test_value_of_an_option_with_the_name_of_a_secret_is_hidden(name):
    assert secret_kind(name, SECRET) == f"the value of {name.removeprefix('db.')!r}"
    assert hide_secret(name, SECRET) == "***"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *(
            (f"https://h/p?a=1&{name}={SECRET}", f"the value of {name!r}")
            for name in ("pass", "db_pwd", "signature", "credential", "key", "auth", "sig")
        ),
        (f"AccountName=a;AccountKey={SECRET}", "the value of 'AccountKey'"),
        (f"MYSQL_PWD={SECRET}", "the value of 'MYSQL_PWD'"),
        (f"mysql --password {SECRET} trips", "the value of 'password'"),
        ("Authorization: Basic Ym9iOmh1bnRlcjI=", "a login of HTTP"),
        ("postgresql://bob:hunter/22@h/db", "a password in an address"),
        ("SharedAccessSignature sr=h&sig=aBc%3D&se=1", "a shared access signature"),
        (f"dckr_pat_{'a1B' * 9}", "a token of a service"),
        (f"vault token: hvs.{'a1B' * 8}", "a token of a service"),
        (f"dapi{'0a' * 16}", "a token of a service"),
        (f"sk_live_{'a1' * 12}", "a token of a service"),
        (f"pypi-AgEIcHlwaS5vcmc{'a1' * 12}", "a token of a service"),
        (f"ghp_{'a1' * 18}", "a token of a service"),
        (f"SG.{'a1' * 11}.{'b2' * 20}", "a token of a service"),
        ("https://hooks.slack.com/services/T000/B000/abcdEFGH1234", "a web hook"),
        ("https://discord.com/api/webhooks/1234/abcdEFGH1234", "a web hook"),
        (f"AGE-SECRET-KEY-1{'Q3' * 20}", "a private key"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----", "a private key"),
    ],
)
def test_a_text_with_a_secret_is_told_and_hidden(text, kind):
    assert secret_kind("", text) == kind
    assert hide_secret("", text) == "***"
    hidden = without_secrets(f"Going to run a new execution: {{'query': '{text}'}}")
    assert "***" in hidden
    assert text not in hidden


@pytest.mark.parametrize(
    "name",
    [
        *("password", "db.passwd", "passphrase", "client-secret", "API_KEY", "account-key-id"),
        *("credentials", "my_pwd", "jwt", "sas_token", "private_key_base64", "connection_string"),
    ],
)
def test_value_of_each_name_of_a_secret_is_hidden_in_an_assignment_and_in_json(name):
    assert without_secrets(f"{name} = hunter22") == f"{name} = ***"
    assert without_secrets(f'{{"{name}": "hunter22"}}') == f'{{"{name}": "***"}}'


def test_secret_behind_a_long_text_is_hidden():
    text = f"{'gs://bucket/shard,' * 1_000} password=hunter22 {'a.' * 5_000}"
    assert without_secrets(text) == text.replace("hunter22", "***")


def test_a_message_shows_neither_login_nor_parameters():
    assert masked("https://bob:hunter22@h/a/b.csv?x=1") == "https://***@h/a/b.csv"
    assert masked("postgresql://bob:hun?ter22@h/db?x=1") == "postgresql://***@h/db"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (
            "SELECT from postgresql://me@h/db?sslmode=require&new_option=a&pass=hunter22 (https://h?a=1)",
            "SELECT from postgresql://me@h/db?sslmode=***&new_option=***&pass=*** (https://h?a=***)",
        ),
        (
            'properties={"config": "{\\"password\\": \\"hunter22\\", \\"rows\\": 3}", '
            "'url': 'postgresql://bob:hunter22@h/db'}",
            'properties={"config": "{\\"password\\": \\"***\\", \\"rows\\": 3}", '
            "'url': 'postgresql://bob:***@h/db'}",
        ),
        ('password="p\'wSecret123"', 'password="***"'),
        ("password='abc\"restofsecret'", "password='***'"),
        ("postgresql://h/d?password=ab,cdefgh", "postgresql://h/d?password=***"),
        ("snowflake://a/d?passcode=123456", "snowflake://a/d?passcode=***"),
    ],
)
def test_all_of_a_value_is_hidden_and_the_rest_stays(text, hidden):
    assert without_secrets(text) == hidden
    assert secret_kind("", text)
