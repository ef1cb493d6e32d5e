"""The reader of QNN's profile: names that hold anything, damage that is told by line, and no line lost."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_winml.errors import MonitorError
from pytest_winml.monitors.qnn_csv import MalformedProfile, Profile, Section, open_patiently, read_profile
from tests.monitors.qnn_profiles import (
    FINALIZE,
    HEADER,
    HEADER_WITH_SOURCES,
    block,
    event,
    node,
    simple_block,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return tmp_path / "profile.csv"


def read(csv: Path, text: str | bytes, known: frozenset[str] = frozenset()) -> Profile:
    raw = text.encode() if isinstance(text, str) else text
    csv.write_bytes(raw)
    return read_profile(csv, [Section(start=0, end=len(raw), run=1)], known)


def names(profile: Profile, partition: int = 0) -> list[str]:
    return [operator.name for operator in profile.partitions[partition].operators]


NASTY = [
    "/a/Conv, with, commas",
    "quotes \" and ' and ;",
    "größe/卷积",
    " spaces ",
    "looks like:OpId_7 (cycles)",
    "looks like:OpId_7 (cycles),x",
    "Input OpId_2 (cycles)",
    "0,NODE,5,CYCLES,BACKEND,SUB-EVENT,z:OpId_9 (cycles)",
]


@pytest.mark.parametrize("name", NASTY)
def test_a_name_is_all_before_the_last_id(csv: Path, name: str) -> None:
    profile = read(csv, HEADER + block([node(f"{name}:OpId_22 (cycles)", 7)], 7))
    (operator,) = profile.partitions[0].operators
    assert (operator.name, operator.op_id, operator.kind) == (name, 22, "named")


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("sources", ["", "a;b", "c, with comma", "x:OpId_3 (cycles)"])
def test_a_name_is_told_from_the_sources_behind_it(csv: Path, name: str, sources: str) -> None:
    row = node(f"{name}:OpId_22 (cycles),{sources}", 7)
    profile = read(csv, HEADER_WITH_SOURCES + block([row], 7, with_sources=True))
    (operator,) = profile.partitions[0].operators
    assert (operator.name, operator.op_id, operator.sources) == (name, 22, sources)


def test_a_name_that_is_known_settles_what_its_row_leaves_open(csv: Path) -> None:
    name = "a:OpId_7 (cycles),b"
    text = HEADER_WITH_SOURCES + block([node(f"{name}:OpId_22 (cycles),{name}", 7)], 7, with_sources=True)
    assert names(read(csv, text, frozenset({name}))) == [name]


def test_nameless_and_pseudo_operators_are_kept_and_told_apart(csv: Path) -> None:
    rows = [node(f"{kind}OpId_{n} (cycles)", n) for kind, n in (("Input ", 2), ("", 16), ("a:", 0), ("Output ", 3))]
    profile = read(csv, HEADER + block(rows, 21))
    assert [one.kind for one in profile.partitions[0].operators] == ["input", "nameless", "named", "output"]
    assert profile.partitions[0].samples[0].tolist() == [2, 16, 0, 3]


def test_rows_are_counted_under_what_they_are(csv: Path) -> None:
    text = HEADER + FINALIZE + simple_block("a") + HEADER + "\n" + event("News", 3, "OBJECT", "FUTURE KIND")
    profile = read(csv, text + "0,NODE,32")
    assert profile.lines == 13
    assert profile.counts == {
        "header": 2,
        "FINALIZE": 1,
        "BACKEND": 3,
        "NODE": 3,
        "EXECUTE": 1,
        "blank": 1,
        "FUTURE KIND": 1,
        "cut line": 1,
    }
    assert profile.others["News (OBJECT)"] == 1
    assert profile.cuts == []


def test_blocks_belong_to_the_run_whose_bytes_they_are(csv: Path) -> None:
    created, one, two = HEADER + FINALIZE, simple_block("a") + simple_block("b"), simple_block("a")
    csv.write_text(created + one + two, newline="\n")
    ends = [len(created), len(created + one), len(created + one + two)]
    sections = [Section(start=ends[0], end=ends[1], run=1), Section(start=ends[1], end=ends[2], run=2)]
    profile = read_profile(csv, sections)
    assert [(block.run, block.partition) for block in profile.blocks] == [(1, 0), (1, 1), (2, 0)]
    assert read_profile(csv, sections[1:]).blocks[0].run is None, "what no section claims is of no run"


def test_what_comes_after_the_last_section_is_not_read(csv: Path) -> None:
    text = HEADER + simple_block("a")
    csv.write_text(text + "garbage of somebody else\n", newline="\n")
    assert len(read_profile(csv, [Section(start=0, end=len(text), run=1)]).blocks) == 1


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(csv: Path) -> None:
    text = HEADER + simple_block("a", "b")
    plain, dos = read(csv, text), read(csv, b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert names(plain) == names(dos) == ["", "a", "b", ""]
    assert plain.counts == dos.counts


def test_a_block_that_is_cut_short_is_counted_and_in_no_figure(csv: Path) -> None:
    whole = simple_block("a")
    profile = read(csv, HEADER + whole + whole[: whole.index("0,EXECUTE")] + whole)
    assert (len(profile.blocks), len(profile.cuts)) == (2, 1)
    assert sum(profile.counts.values()) == profile.lines == 1 + 7 + 6 + 7


def test_unknown_values_are_not_zeros(csv: Path) -> None:
    rows = [node("a:OpId_1 (cycles)", "UNKNOWN"), node("b:OpId_4 (cycles)", 5)]
    profile = read(csv, HEADER + block(rows, "UNKNOWN") + event("Unknown event type", "UNKNOWN", "OBJECT", "UNKNOWN"))
    assert profile.partitions[0].samples[0].tolist() == [-1, 5]
    assert profile.blocks[0].cycles is None


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (HEADER.replace("Unit of Measurement,", "") + simple_block("a"), 1, "column 'Unit of Measurement' is missing"),
        (HEADER.replace("\n", ",Colour\n") + simple_block("a"), 1, "column 'Colour' is unknown"),
        (HEADER.replace("Message,Time", "Time,Message"), 1, "column 'Time' is where 'Message' should be"),
        (simple_block("a"), 1, "column 'Msg Timestamp' is missing"),
        (HEADER + "0,NODE\n", 2, "2 columns instead of 7"),
        (HEADER_WITH_SOURCES + FINALIZE, 2, "column 'ONNX Source Ops' is missing"),
        (HEADER + FINALIZE + node("a:OpId_1 (cycles)", "-5"), 3, "'-5', which is no number"),
        (HEADER + node("a:OpId_1 (cycles)", 5, "US"), 2, "in US"),
        (HEADER + block([node("a:OpId_1 (cycles)", 9)], 10), 6, "add up to 9 cycles, and the accelerator says 10"),
        (HEADER + block([node("no id here", 9)], 9), 6, "'no id here' in the block that ends here names no operator"),
        (HEADER + block([node("a:OpId_1 (cycles)", "9" * 30)], 9), 6, "30 digits"),
        (HEADER + event("Accelerator (execute) time", "9" * 5000, "US"), 2, "5000 digits"),
        (HEADER + "0,NODE,5\n" + simple_block("a"), 2, "3 columns instead of 7"),
    ],
)
def test_damage_is_told_with_its_line(csv: Path, text: str, line: int, what: str) -> None:
    with pytest.raises(MalformedProfile, match=what.replace("(", "\\(")) as caught:
        read(csv, text)
    assert caught.value.line == line
    assert caught.value.message.startswith(f"line {line}: ")


def test_a_file_that_is_shorter_than_what_was_written_is_damaged(csv: Path) -> None:
    csv.write_text(HEADER)
    with pytest.raises(MalformedProfile, match=r"line 1: the file ends at byte"):
        read_profile(csv, [Section(start=0, end=len(HEADER) + 10, run=1)])


def test_bytes_that_two_runs_claim_are_an_error(csv: Path) -> None:
    csv.write_text(HEADER)
    with pytest.raises(MonitorError, match="two runs claim"):
        read_profile(csv, [Section(start=0, end=10, run=1), Section(start=5, end=20, run=2)])


class _Busy:
    """A path that somebody else has open, so many times."""

    def __init__(self, path: Path, times: int, winerror: int) -> None:
        self._path, self.times, self._winerror = path, times, winerror

    def open(self, mode: str) -> BinaryIO:
        if self.times:
            self.times -= 1
            error: Any = PermissionError(13, "used by another process")
            error.winerror = self._winerror
            raise error
        return self._path.open("rb")


def test_a_sharing_violation_is_waited_out_for_longer_and_longer(csv: Path) -> None:
    csv.write_text(HEADER)
    waits: list[float] = []
    busy: Any = _Busy(csv, 3, 32)
    open_patiently(busy, sleep=waits.append).close()
    assert len(waits) == 3
    assert waits == sorted(waits)
    waits.clear()
    for error, times, tried in ((32, 99, 7), (5, 1, 0)):
        forbidden: Any = _Busy(csv, times, error)
        with pytest.raises(PermissionError):
            open_patiently(forbidden, sleep=waits.append)
        assert len(waits) == tried
        waits.clear()


# Whatever is in the file.

OPERATOR_NAMES = st.lists(
    st.one_of(
        st.sampled_from([*NASTY, ""]), st.text(st.characters(exclude_characters="\n\r", codec="utf-8"), max_size=8)
    ),
    min_size=1,
    max_size=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(graphs=st.lists(OPERATOR_NAMES, min_size=1, max_size=3), runs=st.integers(1, 4), cycles=st.integers(0, 10**9))
def test_what_was_written_is_read(csv: Path, graphs: list[list[str]], runs: int, cycles: int) -> None:
    blocks = []
    for place, graph in enumerate(graphs):  # ids tell graphs apart, as QNN's do
        rows = [
            node(f"{name}{':' if name else ''}OpId_{100 * place + n + 4} (cycles)", cycles + n)
            for n, name in enumerate(graph)
        ]
        blocks.append(block(rows, sum(cycles + n for n in range(len(graph)))))
    inference = "".join(blocks)
    csv.write_bytes((HEADER + inference * runs).encode())
    start, size = len(HEADER.encode()), len(inference.encode())
    sections = [Section(start=start + n * size, end=start + (n + 1) * size, run=n + 1) for n in range(runs)]
    profile = read_profile(csv, sections)
    assert [names(profile, place) for place in range(len(graphs))] == graphs
    assert [(one.run, one.partition) for one in profile.blocks] == [
        (run + 1, place) for run in range(runs) for place in range(len(graphs))
    ]
    assert sum(profile.counts.values()) == profile.lines == csv.read_bytes().count(b"\n")


GOOD = (HEADER + FINALIZE + simple_block("a", "b, c") + simple_block("d") + HEADER + simple_block("a", "b, c")).encode()
EDITS = st.lists(
    st.tuples(
        st.integers(0, len(GOOD)),
        st.integers(0, 40),
        st.one_of(
            st.binary(max_size=12), st.sampled_from([b"\n", b",", b"UNKNOWN", b"\r\n", HEADER.encode(), b"NODE"])
        ),
    ),
    max_size=4,
)


def mutated(edits: Sequence[tuple[int, int, bytes]]) -> bytes:
    data = GOOD
    for start, removed, put in edits:
        data = data[:start] + put + data[start + removed :]
    return data


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400, deadline=None)
@given(edits=EDITS, keep=st.integers(0, len(GOOD) + 50), cut=st.integers(0, len(GOOD)))
def test_a_damaged_file_is_read_to_the_last_line_or_refused_by_line(
    csv: Path, edits: list[tuple[int, int, bytes]], keep: int, cut: int
) -> None:
    data = mutated(edits)[:keep]
    csv.write_bytes(data)
    middle = min(cut, len(data))
    sections = [Section(start=0, end=middle), Section(start=middle, end=len(data), run=1)]
    refused: MalformedProfile | None = None
    try:
        profile = read_profile(csv, [one for one in sections if one.end > one.start])
    except MalformedProfile as error:
        refused = error
    if refused is not None:
        assert 1 <= refused.line <= data.count(b"\n") + 1
        assert f"line {refused.line}: " in refused.message
        return
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    assert sum(profile.counts.values()) == profile.lines == lines
    in_blocks = sum(len(sample) for partition in profile.partitions for sample in partition.samples)
    assert in_blocks <= profile.counts["NODE"] <= in_blocks + sum(cut.rows for cut in profile.cuts)
    for one in profile.blocks:
        sample = profile.partitions[one.partition].samples[one.sample]
        assert one.cycles is None or -1 in sample or sum(sample) == one.cycles


def _tool() -> Any:
    path = Path(__file__).parents[2] / "tools" / "bench_qnn_csv.py"
    spec = importlib.util.spec_from_file_location("bench_qnn_csv", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_long_profile_is_read_fast_and_in_little_memory() -> None:
    tool = _tool()
    figures = tool.measure(rows=100_000, operators=300)
    assert figures["lines"] / figures["processor_s"] > tool.LEAST_ROWS_PER_S
    assert figures["peak_bytes"] < tool.MOST_BYTES
