import pytest

from penstock.components.errors import UsageError
from penstock.components.sources.sql.options import Sql


def test_parameters_are_split_at_the_first_equals_sign():
    assert Sql(query="x", params=("a=b=c", "d=")).bound_params() == {"a": "b=c", "d": ""}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query": "x", "table": "t"}, "`query` and `table` are both given; give one of them"),
        ({"table": "t", "params": ("a=1",)}, "`params` need a query, but a table is given"),
        ({"params": ("secret",)}, "`params` must be name=value each"),
        ({"params": ("a=1", "a=2")}, "`params` name 'a' twice; give it one value"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(UsageError) as caught:
        Sql(**options)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)
