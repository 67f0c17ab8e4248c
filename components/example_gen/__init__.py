"""Source to Examples: a Beam transform, and a thin TFX node over it."""
