"""The digits' classes, as the schema has them: for metrics; training takes those of the data."""

from penstock import Target, image_features

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

TARGET = Target(image_features.LABEL, "classes", classes=WORDS)
