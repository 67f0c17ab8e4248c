"""Output of commands for people: tables, progress, interrupts, captured library output."""
