"""Predicts the class of an image, by default in scikit-learn's handwritten digits."""
