from penstock.components.errors import counted


def test_counted():
    told = [counted(number, "core") for number in (0, 1, 1.0, 4 / 3, 2.0, 12345)]
    assert told == ["no cores", "1 core", "1 core", "1.33 cores", "2 cores", "12,345 cores"]
