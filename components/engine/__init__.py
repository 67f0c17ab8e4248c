"""Runs tasks in this process, in several local processes, or on Flink, Dataflow or a job server."""
