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
