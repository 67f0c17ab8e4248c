"""Predicts the class of an image, by default of scikit-learn's handwritten digits."""
