"""The only place where a number becomes text."""

from __future__ import annotations

_BYTE_STEPS = ("B", "kB", "MB", "GB", "TB")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def seconds(value: float) -> str:
    """`0.42 s`, `12 s`, `3 min 05 s`."""
    if value < 10:  # noqa: PLR2004 - below this a whole second says too little
        return f"{value:.2f} s"
    whole = round(value)
    if whole < 60:  # noqa: PLR2004 - seconds in a minute
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60:02d} s"


def byte_size(size_bytes: int) -> str:
    """`812 B`, `1.4 MB`: decimal steps, as disks and registries count."""
    value = float(size_bytes)
    for step in _BYTE_STEPS:
        if value < 1000 or step == _BYTE_STEPS[-1]:  # noqa: PLR2004 - a decimal step
            return f"{value:.0f} {step}" if step == "B" else f"{value:.1f} {step}"
        value /= 1000
    raise AssertionError("unreachable")


def percent(share: float) -> str:
    """A share of one as `97.5 %`."""
    return f"{100 * share:.1f} %"


def signed_percent(share: float) -> str:
    """A change as `+9.8 %`, `-3.0 %`."""
    return f"{100 * share:+.1f} %"


def change(effect: float) -> str:
    """A relative change of a time in words: `12.3 % slower`, `4.0 % faster`, `no difference`."""
    if abs(effect) < 0.0005:  # noqa: PLR2004 - what would be shown as 0.0 %
        return "no difference"
    return f"{percent(abs(effect))} {'slower' if effect > 0 else 'faster'}"


def milliseconds(value_ms: float) -> str:
    """Three significant digits in the unit that reads best: `812 ns`, `45.1 us`, `8.03 ms`, `1.20 s`."""
    for factor, unit in ((1e6, "ns"), (1e3, "us"), (1.0, "ms")):
        scaled = value_ms * factor
        if scaled < 999.5:  # noqa: PLR2004 - 1000 is one of the next unit
            return f"{_three_digits(scaled)} {unit}"
    return f"{_three_digits(value_ms / 1e3)} s"


def cycles(value: float) -> str:
    """Three significant digits, without the unit, which stands above a column: `812`, `196 k`, `3.75 M`."""
    if value < 999.5:  # noqa: PLR2004 - 1000 is one of the next step
        return f"{value:.0f}"
    for factor, step in ((1e3, "k"), (1e6, "M")):
        if value / factor < 999.5:  # noqa: PLR2004 - 1000 is one of the next step
            return f"{_three_digits(value / factor)} {step}"
    return f"{_three_digits(value / 1e9)} G"


def _three_digits(value: float) -> str:
    if value < 9.995:  # noqa: PLR2004 - rounds to 10.0
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"  # noqa: PLR2004 - rounds to 100
