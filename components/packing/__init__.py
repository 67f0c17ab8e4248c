"""Packs row Examples into shuffled blocks of columns, which training reads many times faster."""
