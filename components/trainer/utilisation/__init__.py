"""Measures after a training whether its input limits its speed, and says so in one sentence."""
