"""Predicts the class of an image; the default images are scikit-learn's handwritten digits."""
