"""ORT's profile read line by line: what belongs where, and what is not whole says where it breaks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.monitors import ort_profile_reading
from pytest_winml.monitors.ort_profile_reading import Profile, ProfileUnreadable, read_profile
from tests.monitors.profiles import CPU, event, fused, node, run, text

PLAIN = [
    event("Session", "session_initialization", 0, 90),
    run(100, 50),
    node("conv", 110, 20),
    fused(0, 135, 10),
    event("Session", "SequentialExecutor::Execute", 101, 48),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "profile.json"


def read(path: Path, content: str | bytes) -> Profile:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    profile = read_profile(path)
    assert profile is not None
    return profile


def by_name(profile: Profile) -> dict[str, Any]:
    return {profile.operators[call.operator].name: call for call in profile.calls()}


def test_session_run_and_node_levels_are_kept_apart(path: Path) -> None:
    profile = read(path, text(PLAIN))
    assert profile.session_us == {"session_initialization": 90, "SequentialExecutor::Execute": 48}
    assert [(one.start_us, one.duration_us) for one in profile.runs] == [(100, 50)]
    assert [(one.level, one.provider) for one in profile.operators] == [
        ("node", CPU),
        ("partition", "QNNExecutionProvider"),
    ]


def test_a_call_belongs_to_the_run_it_began_in_and_not_to_the_line_it_stands_on(path: Path) -> None:
    child = event("Kernel", "kernel", 325, 5, op_name="Convolution", node_name="conv")
    events = [run(300, 50), node("conv", 310, 20), run(100, 50), node("conv", 110, 20), child]
    calls = list(read(path, text(events)).calls())
    assert [(call.run, call.start_us) for call in calls] == [(0, 110), (1, 310), (1, 325)]


def test_what_ran_in_no_recorded_run_is_left_out(path: Path) -> None:
    profile = read(path, text([node("early", 10, 5), run(100, 50), node("conv", 110, 20), node("late", 200, 5)]))
    assert list(by_name(profile)) == ["conv"]


def test_a_node_of_control_flow_counts_without_the_nodes_inside_it(path: Path) -> None:
    inner = [node("a", 112, 10), node("b", 125, 4)]
    profile = read(path, text([*inner, node("the_if", 110, 30, "If"), node("after", 141, 9), run(100, 60)]))
    assert {name: call.own_us for name, call in by_name(profile).items()} == {
        "the_if": 16,
        "a": 10,
        "b": 4,
        "after": 9,
    }


def test_loops_in_loops_subtract_each_level_once(path: Path) -> None:
    events = [run(0, 100), node("outer", 1, 90, "Loop"), node("inner", 2, 80, "Loop"), node("add", 3, 70)]
    assert {name: call.own_us for name, call in by_name(read(path, text(events))).items()} == {
        "outer": 10,
        "inner": 10,
        "add": 70,
    }


def test_nodes_on_other_threads_are_not_inside(path: Path) -> None:
    other = {**node("other", 112, 10), "tid": 8}
    profile = read(path, text([run(100, 50), node("conv", 110, 30), other]))
    assert by_name(profile)["conv"].own_us == 30


def test_shapes_are_told_shortly(path: Path) -> None:
    shaped = node("c", 110, 1, input_type_shape=[{"float": [1, 3]}, {"int8": []}], output_type_shape=[{"float": [1]}])
    profile = read(path, text([run(100, 50), shaped]))
    assert profile.operators[0].shapes == "float[1,3], int8[] -> float[1]"


def test_shapes_of_an_unknown_form_cost_no_trace(path: Path) -> None:
    profile = read(path, text([run(100, 50), node("c", 110, 1, input_type_shape={"what": "?"})]))
    assert profile.operators[0].shapes == "? -> ?"


def test_events_that_are_no_operators_are_counted(path: Path) -> None:
    fence = event("Node", "conv_fence_before", 110, 1, op_name="Conv")
    profile = read(path, text([run(100, 50), fence, event("Api", "enqueue", 111, 1)]))
    assert profile.unread == {"Node": 1, "Api": 1}
    assert profile.operators == []


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "new\nline", "comma, ü", "real_kernel_time", ""])
def test_names_survive_whatever_is_in_them(path: Path, name: str) -> None:
    profile = read(path, text([run(100, 50), node(name, 110, 1)]))
    assert profile.operators[0].name == name


def test_a_missing_or_empty_file_is_no_profile(path: Path) -> None:
    assert read_profile(path) is None
    path.write_text("")
    assert read_profile(path) is None


WHOLE = text(PLAIN)


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (WHOLE[: WHOLE.rindex("]")], "line 6: the profile is cut short"),
        (WHOLE[: len(WHOLE) // 2], "line 4"),
        ("[\n[\n]\n", "line 2"),
        ("[\n", "line 1: the profile is cut short"),
        ("{}\n", "line 1: a profile begins with a bracket"),
        (WHOLE + "more", "line 8: after the end of the profile"),
        (WHOLE.replace("},\n", "}\n", 1), "line 3: no comma before"),
        (WHOLE.replace("}\n]", "},\n]"), "line 7: after a comma comes"),
        (WHOLE.encode().replace(b'"ph": "X"', b'"ph": "\xff"', 1), "line 2"),
        (WHOLE.replace('"dur": 20', '"dur": -20'), "line 4"),
        (WHOLE.replace('"dur": 20', '"dur": "20"'), "line 4"),
        (WHOLE.replace('"ts": 110', '"ts": 1e99'), "line 4"),
        (WHOLE.replace('"conv_kernel_time"', "null"), "line 4"),
        (WHOLE.replace('"cat": "Node"', '"cat": 3', 1), "line 4"),
        (WHOLE.encode().replace(b"conv", b"con\xff"), "line 4"),
    ],
)
def test_what_is_not_whole_says_on_which_line(path: Path, content: str | bytes, place: str) -> None:
    with pytest.raises(ProfileUnreadable, match=place):
        read(path, content)


def test_a_file_that_another_process_holds_is_tried_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(WHOLE)
    refusals, waited = iter([True, True, False]), list[float]()
    really = Path.open

    def sharing_violation(self: Path, mode: str) -> IO[Any]:
        if next(refusals):
            raise PermissionError(13, "in use")
        return really(self, mode)

    monkeypatch.setattr(Path, "open", sharing_violation)
    assert read_profile(path, waited.append) is not None
    assert waited == [0.05, 0.1]


def test_a_file_that_stays_closed_is_unreadable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path, mode: str) -> IO[Any]:
        raise PermissionError(13, "in use")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(ProfileUnreadable, match="cannot be opened"):
        read_profile(path, lambda _: None)


def test_a_line_without_end_is_not_read_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort_profile_reading, "_MAX_LINE", 100)
    with pytest.raises(ProfileUnreadable, match="line 2"):
        read(path, "[\n" + "x" * 1000)


def mutations() -> st.SearchStrategy[bytes]:
    """A whole profile with some bytes cut, doubled or replaced."""

    def mutate(edits: list[tuple[int, int, bytes]]) -> bytes:
        data = WHOLE.encode()
        for place, length, put in edits:
            at = place % (len(data) + 1)
            data = data[:at] + put + data[at + length :]
        return data

    edit = st.tuples(st.integers(0, 4000), st.integers(0, 40), st.binary(max_size=12))
    return st.lists(edit, min_size=1, max_size=4).map(mutate)


def read_or_place(content: bytes) -> Profile | str | None:
    """What was read, or what the error says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.json"
        path.write_bytes(content)
        try:
            return read_profile(path)
        except ProfileUnreadable as error:
            return str(error)


@given(mutations())
def test_a_mutated_profile_reads_or_names_its_line(content: bytes) -> None:
    profile = read_or_place(content)
    if isinstance(profile, str):
        assert "line " in profile
    elif profile is not None:
        # Nothing is lost silently: every line between the brackets was counted.
        assert profile.events == sum(bool(line.strip()) for line in content.split(b"\n")) - 2
        assert all(0 <= call.own_us <= call.duration_us for call in profile.calls())


@given(st.binary(max_size=200))
def test_any_bytes_read_or_name_their_line(content: bytes) -> None:
    found = read_or_place(content)
    assert not isinstance(found, str) or "line " in found
