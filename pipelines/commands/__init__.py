"""The commands: their options and help; nothing heavy is imported before a command runs."""
