"""The work of each command, in a file of the command's name."""
