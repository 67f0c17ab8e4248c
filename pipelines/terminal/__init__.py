"""Everything a person sees while a command runs: tables, progress, interrupts, captured noise."""
