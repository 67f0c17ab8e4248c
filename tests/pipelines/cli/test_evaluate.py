def test_a_missed_threshold_is_exit_code_1_with_the_evaluation_written(tmp_path, penstock):
    rows = "".join(f"{i % 2},{(i % 3) / 2},{'ab'[i % 2]}\n" for i in range(60))
    (tmp_path / "p.csv").write_text("y,p,town\n" + rows)
    command = ("evaluate", "p.csv", "--label", "y", "--prediction", "p", "--slice", "town")
    missed = penstock(*command, "--threshold", "AUC=0.8", "--out", "missed", cwd=tmp_path)
    assert missed.returncode == 1
    assert missed.stderr.splitlines()[-1].startswith("penstock: auc of overall is 0.5")
    assert "60 rows" in missed.stdout
    written = {path.name for path in (tmp_path / "missed").iterdir()}
    assert written >= {"evaluation.json", "evaluation.html"}
    reached = penstock(*command, "--threshold", "AUC=0.3", "--out", "reached", cwd=tmp_path)
    assert reached.returncode == 0
    again = penstock(*command, "--out", "reached", cwd=tmp_path)
    assert again.returncode == 2
    wrong = penstock(*command, "--threshold", "AUC=high", "--out", "new", cwd=tmp_path)
    assert wrong.stderr.splitlines()[-1] == (
        "penstock: --threshold AUC=high: expected a number after AUC="
    )
