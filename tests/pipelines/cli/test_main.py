def test_an_unexpected_end_of_data_is_one_line(penstock):
    done = penstock.run_code(
        """
        import sys
        from penstock.components.doctor import verify
        from penstock.pipelines.cli.main import main

        def end_early(*_, **__):
            raise EOFError("Compressed file ended")

        verify.verify = end_early
        sys.argv = ["penstock", "verify", "shards"]
        main()
        """
    )
    assert (done.returncode, done.stderr) == (1, "\npenstock: Compressed file ended\n")


def test_failure_line_is_the_termination_message_of_a_pod(penstock, tmp_path):
    log = tmp_path / "termination-log"
    log.touch()
    done = penstock.run_code(
        f"""
        import sys
        from pathlib import Path
        from penstock.pipelines.cli import main

        main._TERMINATION_LOG = Path({str(log)!r})
        sys.argv = ["penstock", "verify", "no/such"]
        main.main()
        """
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"penstock: {log.read_text()}"
    assert "no/such" in log.read_text()
