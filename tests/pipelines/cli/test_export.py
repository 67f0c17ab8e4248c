def test_the_account(tmp_path, penstock):
    (tmp_path / "t.csv").write_text("id,x\n" + "".join(f"{i},{i / 2}\n" for i in range(90)))
    assert penstock("ingest", "t.csv", "shards", cwd=tmp_path).returncode == 0
    done = penstock("export", "shards", "out", "--to", "parquet", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("90 rows written (train ")
    again = penstock("export", "shards", "out", "--to", "parquet", cwd=tmp_path)
    assert again.returncode == 2
    assert again.stderr.splitlines()[-1] == (
        f"penstock: {tmp_path}/out exists already; name another output"
    )
