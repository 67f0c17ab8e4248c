"""Classes of the digits in the schema, for metrics; training uses the classes in the data."""

from penstock.recipes import Target
from penstock.training import image_features

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

TARGET = Target(image_features.LABEL, "classes", classes=WORDS)
