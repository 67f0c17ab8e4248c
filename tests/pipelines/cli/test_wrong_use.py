def test_where_the_help_is_printed_nothing_more_is_said(penstock):
    done = penstock("runs")
    assert done.returncode == 2
    assert "prune" in done.stdout
    assert done.stderr == ""
