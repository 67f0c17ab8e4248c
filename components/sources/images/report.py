"""Facts of a set of images before any is decoded: classes, and files that are equal."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.components.sources.layout import shown


@dataclass(frozen=True)
class ImageReport:
    """Classes and duplicates, bad images included.

    Attributes:
        classes: Images by class, in the order of the classes' numbers; by text where there is one.
        unlabelled: Images without label.
        duplicates: Groups of names of files with equal content, largest first.
        conflicting: Those groups whose files have different classes.
    """

    classes: dict[str, int]
    unlabelled: int
    duplicates: tuple[tuple[str, ...], ...]
    conflicting: tuple[tuple[str, ...], ...]

    def lines(self) -> list[str]:
        """The report for a person."""
        lines = []
        if self.classes:
            few, many = min(self.classes.values()), max(self.classes.values())
            classes = "1 class" if len(self.classes) == 1 else f"{len(self.classes):,} classes"
            each = f"{few:,}" if few == many else f"{few:,} to {many:,}"
            lines.append(f"{classes} of {each} {'image' if many == 1 else 'images'}")
        if self.unlabelled:
            images = "image" if self.unlabelled == 1 else "images"
            lines.append(f"{self.unlabelled:,} {images} without label")
        if self.duplicates:
            extra = sum(len(group) - 1 for group in self.duplicates)
            repeat = "image repeats" if extra == 1 else "images repeat"
            lines.append(
                f"{extra:,} {repeat} another one's content, as {shown(self.duplicates[0], 3)}"
            )
        if self.conflicting:
            have = "content has" if len(self.conflicting) == 1 else "contents have"
            lines.append(
                f"{len(self.conflicting):,} {have} several classes, as "
                f"{shown(self.conflicting[0], 3)}"
            )
        return lines


def make_report(
    names: Sequence[str],
    digests: Sequence[bytes],
    numbers: Sequence[int | None],
    texts: Sequence[bytes | None],
) -> ImageReport:
    """Count classes and find equal files; all arguments have an entry an image."""
    counts = Counter(pair for pair in zip(numbers, texts, strict=True) if pair[0] is not None)
    groups: dict[bytes, list[int]] = {}
    for at, digest in enumerate(digests):
        groups.setdefault(digest, []).append(at)
    equal = [group for group in groups.values() if len(group) > 1]
    equal.sort(key=lambda group: (-len(group), min(names[at] for at in group)))
    mixed = [group for group in equal if len({numbers[at] for at in group}) > 1]
    return ImageReport(
        classes={
            (os.fsdecode(text) if text else str(number)): count
            for (number, text), count in sorted(counts.items(), key=lambda item: item[0][0] or 0)
        },
        unlabelled=sum(number is None for number in numbers),
        duplicates=tuple(tuple(sorted(names[at] for at in group)) for group in equal),
        conflicting=tuple(tuple(sorted(names[at] for at in group)) for group in mixed),
    )
