"""Packs row Examples into shuffled blocks of columns, which are many times faster to read."""
