from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_winml.errors import UsageProblem
from pytest_winml.measure.baseline_files import FileName, case_slug, decode, encode, file_name, folder_of
from pytest_winml.records.baseline import BASELINE_SCHEMA, Baseline
from tests.records.samples import BASELINE, BASELINE_SESSION

RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
NASTY = [
    "..", ".", "../../escape", "..\\escape", "/absolute", "C:\\x", "c:x", "con", "NUL", "com1", "aux.txt", "a/b",
    "a\\b", "name.", "name ", "~", "x" * 5000, "été", "日本語", "\0", "a\u202eb", "-rf", '*?<>|"', "%2e%2e%2f",
]  # fmt: skip


def changed(**changes: Any) -> bytes:
    return msgspec.json.encode({**msgspec.to_builtins(BASELINE), **changes})


def is_safe(part: str) -> bool:
    return (
        re.fullmatch(r"[a-z0-9][a-z0-9_-]*", part) is not None
        and not RESERVED.fullmatch(part)
        and len(part) <= 50
        and PurePosixPath("root", part).parent == PurePosixPath("root")
        and PureWindowsPath("root", part).parent == PureWindowsPath("root")
    )


@pytest.mark.parametrize("text", NASTY)
def test_a_nasty_name_becomes_one_safe_folder(text: str) -> None:
    assert is_safe(folder_of(text))


@pytest.mark.parametrize("text", [*NASTY, "", "\n", "\ud800x"])
def test_a_nasty_case_becomes_one_safe_file(text: str) -> None:
    assert is_safe(case_slug(text))


@given(st.text(min_size=1))
@example("COM0")
@example("lpt\u00b9")
def test_any_text_becomes_one_safe_part_of_a_path(text: str) -> None:
    assert is_safe(case_slug(text))


@given(st.text(max_size=60), st.text(max_size=60))
@example("a:b", "a/b")
@example("Main", "main")
@example("x" * 41, "x" * 42)
def test_two_cases_never_share_their_files(one: str, other: str) -> None:
    assert (case_slug(one) == case_slug(other)) is (one == other)


def test_a_plain_name_is_its_own_folder() -> None:
    assert folder_of("main") == "main"
    assert folder_of("release_1-2") == "release_1-2"


@pytest.mark.parametrize("name", ["", "  ", "\t", "\udcff"])
def test_no_name_is_a_usage_problem(name: str) -> None:
    with pytest.raises(UsageProblem, match="is no name for a baseline"):
        folder_of(name)


def test_a_file_name_tells_case_machine_and_time_and_is_new_each_time() -> None:
    first, second = file_name(BASELINE), file_name(BASELINE)
    assert first != second
    parsed = FileName.parse(first)
    assert parsed is not None
    assert parsed.case == case_slug(BASELINE.case_id)
    assert parsed.identity == BASELINE.machine.digest
    assert parsed.when == "20260131T120000000000Z"


def test_times_in_file_names_sort_as_they_happened_whatever_the_zone() -> None:
    def when(text: str) -> str:
        parsed = FileName.parse(file_name(msgspec.structs.replace(BASELINE, created_at=text)))
        assert parsed is not None
        return parsed.when

    assert when("2026-01-31T12:00:00+02:00") < when("2026-01-31T10:00:00.000001+00:00") < when("2026-01-31T11:00:00Z")


def test_the_longest_path_leaves_half_of_what_windows_takes() -> None:
    long = msgspec.structs.replace(BASELINE, case=msgspec.structs.replace(BASELINE.case, id="Case" * 99))
    assert len(f"{folder_of('Name' * 99)}/{file_name(long)}") < 140


@pytest.mark.parametrize("name", ["README.md", "notes.json", "a.b.json", "x.0badcafe.20260131T120000000000Z.json"])
def test_other_names_are_not_taken_for_baselines(name: str) -> None:
    assert FileName.parse(name) is None


def test_what_was_written_is_read_back() -> None:
    assert decode(encode(BASELINE)) == BASELINE


def test_the_text_is_what_git_likes() -> None:
    text = encode(BASELINE).decode()
    assert text.endswith("}\n")
    assert "\r" not in text
    assert json.loads(text) == json.loads(msgspec.json.encode(BASELINE))
    assert text == Path(__file__).with_name("baseline.json").read_text(encoding="utf-8")


def test_equal_baselines_have_equal_text_whatever_the_order_of_their_options() -> None:
    def with_options(options: dict[str, str]) -> Baseline:
        target = msgspec.structs.replace(BASELINE.case.target, options=options)
        return msgspec.structs.replace(BASELINE, case=msgspec.structs.replace(BASELINE.case, target=target))

    assert encode(with_options({"a": "1", "b": "2"})) == encode(with_options({"b": "2", "a": "1"}))


def test_one_more_session_only_adds_lines() -> None:
    longer = msgspec.structs.replace(BASELINE, sessions=(BASELINE_SESSION, BASELINE_SESSION))
    before, after = encode(BASELINE).decode().splitlines(), encode(longer).decode().splitlines()
    assert [line.rstrip(",") for line in before[:-2]] == [line.rstrip(",") for line in after[: len(before) - 2]]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e300, 1e300) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


@given(json_values)
def test_the_layout_never_changes_what_is_said(value: Any) -> None:
    from pytest_winml.measure.baseline_files import _lines

    assert json.loads("".join(_lines(value, ""))) == value


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a baseline"),
        (b"<<<<<<< HEAD\n{}", "not a baseline"),
        (b"[" * 100_000, "not a baseline"),
        (b'{"schema_version":1,"x":' + b"[" * 100_000, "not a baseline"),
        (b"{}", "not a baseline"),
        (b"\xff\xfe{}", "not a baseline"),
        (encode(BASELINE)[:-300], "not a baseline"),
        (changed(surprise=1), "unknown field `surprise`"),
        (changed(schema_version=BASELINE_SCHEMA + 1), "update pytest-winml"),
        (changed(schema_version=BASELINE_SCHEMA + 1, surprise=1), "update pytest-winml"),
        (changed(created_at="yesterday"), "no time with its zone"),
        (changed(sessions=[{"blocks": [{"arm": "target", "times_ns": [-5]}]}]), "a time of -5 ns is none"),
        (changed(sessions=[{"blocks": [{"arm": "target", "times_ns": [1e400]}]}]), "not a baseline"),
    ],
)
def test_what_is_no_baseline_is_said_and_not_raised(content: bytes, why: str) -> None:
    answer = decode(content)
    assert isinstance(answer, str)
    assert why in answer


@given(st.binary() | st.builds(lambda cut: encode(BASELINE)[:cut], st.integers(0, len(encode(BASELINE)) - 2)))
def test_no_bytes_crash_the_reader(content: bytes) -> None:
    assert isinstance(decode(content), str)
