"""Options from files and the command line, pipelines by name, and digests of user code."""
