"""Runs tasks in this process, in local processes, or by Beam on Flink, Dataflow or a job server."""
