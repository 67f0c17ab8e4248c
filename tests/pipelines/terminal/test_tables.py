from penstock.pipelines.terminal.tables import console, print_table


def test_columns_stand_below_each_other_where_characters_are_wide(capsys):
    print_table(console(), "cities", ("city", "rows"), [("東京", "66"), ("Zürich", "7")])
    assert capsys.readouterr().out.splitlines() == [
        "cities",
        "  city    rows",
        "  東京    66",
        "  Zürich  7",
    ]
