"""Options of image augmentation: limits of random changes."""

from dataclasses import dataclass

from penstock.components.limits import check_numbers


@dataclass(frozen=True, kw_only=True)
class AugmentOptions:
    """Random changes of training images, drawn for each image; off by default.

    Attributes:
        flip_horizontal: Whether to swap left and right in half of the images.
        flip_vertical: Whether to swap top and bottom in half of the images.
        rotate_degrees: Largest rotation in either direction, in degrees; 0..180.
        shift: Largest shift in either direction, as a share of height and width; 0..1.
        zoom: Largest change of scale, up or down, as a share; 0..1.
        brightness: Largest change of brightness, up or down, as a share of the range; 0..1.
        contrast: Largest change of contrast, up or down, as a share; 0..1.
        saturation: Largest change of saturation, up or down, as a share; 0..1.
        hue: Largest change of hue in either direction, as a share of the colour circle; 0..1.

    Raises:
        UsageError: A value is outside its range.
    """

    flip_horizontal: bool = False
    flip_vertical: bool = False
    rotate_degrees: float = 0.0
    shift: float = 0.0
    zoom: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0

    def __post_init__(self) -> None:
        shares = ("shift", "zoom", "brightness", "contrast", "saturation", "hue")
        check_numbers(self, rotate_degrees=(0.0, 180.0), **dict.fromkeys(shares, (0.0, 1.0)))
