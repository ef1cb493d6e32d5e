from __future__ import annotations

import pytest

from pytest_winml import units


@pytest.mark.parametrize(("number", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes"), (1000, "1000 nodes")])
def test_one_is_singular_and_everything_else_is_plural(number: int, text: str) -> None:
    assert units.count(number, "node") == text


def test_a_plural_of_its_own_can_be_given() -> None:
    assert [units.count(number, "entry", "entries") for number in (1, 2)] == ["1 entry", "2 entries"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.00 s"),
        (0.4249, "0.42 s"),
        (9.99, "9.99 s"),
        (10, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3600, "60 min 00 s"),
    ],
)
def test_seconds_are_as_exact_as_they_are_short(value: float, text: str) -> None:
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_449_000, "1.4 MB"),
        (16_000_000_000, "16.0 GB"),
        (2_000_000_000_000_000, "2000.0 TB"),
    ],
)
def test_sizes_go_in_steps_of_a_thousand(size: int, text: str) -> None:
    assert units.byte_size(size) == text


@pytest.mark.parametrize(("share", "text"), [(0, "0.0 %"), (0.975, "97.5 %"), (1, "100.0 %"), (1.5, "150.0 %")])
def test_a_share_of_one_is_a_percentage(share: float, text: str) -> None:
    assert units.percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (812.4, "812"),
        (999.4, "999"),
        (999.5, "1.00 k"),
        (196_400, "196 k"),
        (999_499, "999 k"),
        (999_500, "1.00 M"),
        (3_750_000, "3.75 M"),
        (2.5e9, "2.50 G"),
        (2.5e12, "2500 G"),
    ],
)
def test_cycles_have_three_digits_and_no_unit(value: float, text: str) -> None:
    assert units.cycles(value) == text
