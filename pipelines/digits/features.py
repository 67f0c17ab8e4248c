"""Target of the digits model, for the metrics; training reads the classes from the data instead."""

from penstock.recipes import Target
from penstock.training import image_features

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

TARGET = Target(image_features.LABEL, "classes", classes=WORDS)
