"""Runs tasks: in this process, in several of this machine, or on Flink, Dataflow and others."""
