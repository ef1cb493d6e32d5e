from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from pytest_winml.report.table import table_lines, wrap

GAP = 2
NARROWEST = 8
# Letters of one column each, and none that could be taken for the rule under the header.
alphabet = st.characters(min_codepoint=33, max_codepoint=0x24F, exclude_categories=["C", "Z"], exclude_characters="-")
words = st.text(alphabet, max_size=30)
cells = st.lists(words, max_size=6).map(" ".join)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    columns = draw(st.integers(1, 6))
    row = st.lists(cells, min_size=columns, max_size=columns)
    return draw(row.map(lambda names: [f"{name}:" for name in names])), draw(st.lists(row, max_size=5))


def letters(text: str) -> str:
    return "".join(text.split())


@given(table=tables(), width=st.integers(1, 150))
def test_a_table_fits_its_width_as_far_as_columns_can_shrink(
    table: tuple[list[str], list[list[str]]], width: int
) -> None:
    header, rows = table
    narrowest = NARROWEST * len(header) + GAP * (len(header) - 1)
    assert max(len(line) for line in table_lines(header, rows, width)) <= max(width, narrowest)


@given(table=tables(), width=st.integers(1, 150))
def test_no_letter_of_a_table_is_lost(table: tuple[list[str], list[list[str]]], width: int) -> None:
    header, rows = table
    shown = Counter(letters("".join(table_lines(header, rows, width))))
    del shown["-"]
    assert shown == Counter(letter for row in (header, *rows) for cell in row for letter in letters(cell))


@given(table=tables(), width=st.integers(1, 150))
def test_no_line_ends_in_spaces(table: tuple[list[str], list[list[str]]], width: int) -> None:
    header, rows = table
    assert not [line for line in table_lines(header, rows, width) if line.endswith(" ")]


def test_columns_are_as_wide_as_their_content() -> None:
    assert table_lines(("a", "long header"), [("cell", "b"), ("c", "d")], 80) == [
        "a     long header",
        "----  -----------",
        "cell  b",
        "c     d",
    ]


def test_the_widest_column_gives_way_and_its_cells_wrap() -> None:
    assert table_lines(("name", "why"), [("first", "because of this and that"), ("second", "no")], 20) == [
        "name    why",
        "------  ------------",
        "first   because of",
        "        this and",
        "        that",
        "second  no",
    ]


def test_a_table_without_rows_is_its_header() -> None:
    assert table_lines(("a", "b"), [], 80) == ["a  b", "-  -"]


def test_columns_do_not_shrink_to_nothing() -> None:
    assert table_lines(("abcdefghij",), [], 1) == ["abcdefgh", "ij", "--------"]


@given(text=cells, width=st.integers(1, 40))
@example(text="", width=1)
@example(text="a" * 10, width=5)
@example(text="a" * 10 + " b", width=5)
@example(text="b " + "a" * 10, width=5)
def test_wrapped_lines_fit_and_hold_every_letter(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert lines
    assert all(len(line) <= width for line in lines)
    assert letters("".join(lines)) == letters(text)


@given(text=st.lists(words.filter(bool), min_size=1, max_size=6).map(" ".join))
def test_a_word_is_broken_only_when_it_alone_is_too_long(text: str) -> None:
    longest = max(map(len, text.split(" ")))
    assert " ".join(wrap(text, longest)) == text


def test_a_word_that_is_too_long_begins_a_line_and_is_cut() -> None:
    assert wrap("see /a/very/long/path now", 8) == ["see", "/a/very/", "long/pat", "h now"]


def test_nothing_is_one_empty_line() -> None:
    assert wrap("", 10) == [""]


def test_line_breaks_stay_and_are_never_inside_a_line() -> None:
    assert wrap("first\nsecond line\n\nlast", 8) == ["first", "second", "line", "", "last"]


def test_an_indent_stays_and_the_rest_of_the_paragraph_keeps_it() -> None:
    assert wrap("  pip uninstall onnxruntime", 18) == ["  pip uninstall", "  onnxruntime"]


def test_an_indent_wider_than_the_line_is_dropped() -> None:
    assert wrap(" " * 9 + "ab", 4) == ["ab"]


@given(text=st.text(st.sampled_from("ab \n"), max_size=40), width=st.integers(1, 12))
def test_whatever_the_spaces_lines_fit_and_letters_stay(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(len(line) <= width and "\n" not in line for line in lines)
    assert letters("".join(lines)) == letters(text)
