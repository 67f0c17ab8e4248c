"""Measures after a training whether its input limited its speed, and says so in one sentence."""
