"""Runs tasks: in this process, in several local processes, or on Flink, Dataflow and others."""
