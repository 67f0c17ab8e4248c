"""Formats of numbers, the same in tables, plots and sentences."""

import math


def compact(value: float | None) -> str:
    """Formats a number as `1,234,567`, `0.9010`, `41.86` or `1.2e-07`; "" for None."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if value == int(value) and size < 1e15:
        return f"{value:,.0f}"
    if size >= 1e15 or size < 1e-4:
        return f"{value:.3g}"
    decimals = max(0, 3 - math.floor(math.log10(size))) if size >= 1 else 4
    return f"{value:,.{min(decimals, 4)}f}"


def metric(value: float | None, name: str) -> str:
    """Formats a metric with four decimals, such as `0.9010`; "" for None and NaN.

    Counts, speeds, and numbers of at least 10,000 or closer to 0 than 0.0001 are formatted by
    `compact`.
    """
    if value is None or math.isnan(value):
        return ""
    is_count = name.endswith(("count", "steps", "second")) or abs(value) >= 10_000
    return compact(value) if is_count or 0 < abs(value) < 1e-4 else f"{value:,.4f}"


def span(low: float, high: float, step: float) -> str:
    """Formats a range with enough digits to distinguish its ends: `41.66 to 41.68`."""
    decimals = max(0, 1 - math.floor(math.log10(step))) if step > 0 else 0
    if decimals > 9 or max(abs(low), abs(high)) >= 1e15:
        return f"{low:.4g} to {high:.4g}"
    return f"{low:,.{decimals}f} to {high:,.{decimals}f}"


def percent(share: float | None) -> str:
    """Formats a share as `12 %`, `0.3 %`, `0 %` or `< 0.1 %`; "" for None."""
    if share is None:
        return ""
    if 0 < share < 0.001:
        return "< 0.1 %"
    hundredths = 100 * share
    return f"{hundredths:.0f} %" if hundredths >= 9.95 or share == 0 else f"{hundredths:.1f} %"


def duration(seconds: float | None) -> str:
    """Formats seconds as `20 ms`, `0.4 s`, `12 s`, `3 min 20 s` or `2 h 5 min`; "" for None."""
    if seconds is None:
        return ""
    if seconds < 0.095:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def signed(value: float | None) -> str:
    """Formats a number with its sign, as `+0.0123` or `-1`; "" for None."""
    return f"{'+' if value and value > 0 else ''}{compact(value)}"
