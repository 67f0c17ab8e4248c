"""The commands, one file each: options and help only; the work is in `work`."""
