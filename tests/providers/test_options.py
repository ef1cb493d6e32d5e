from __future__ import annotations

import mmap
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_winml import providers
from pytest_winml.errors import UsageProblem
from pytest_winml.providers.options import KnownOption, KnownOptions, check_options, known_options
from pytest_winml.records.target import EP_BY_NAME

# Compilers keep long literals whole or compare them in pieces of this many bytes, the last of which may overlap.
PIECE = 16


def refusal(ep: str, options: dict[str, str], version: str | None = None) -> UsageProblem:
    with pytest.raises(UsageProblem) as caught:
        check_options(ep, version, options)
    return caught.value


def files() -> dict[str, bytes]:
    folder = resources.files(providers).joinpath("known_options")
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.endswith(".json")}


def test_there_is_one_list_for_each_ep_and_none_for_anything_else() -> None:
    assert set(files()) == {f"{ep}.json" for ep in EP_BY_NAME}


@pytest.mark.parametrize("ep", sorted(EP_BY_NAME))
def test_every_list_parses_names_its_ep_and_says_where_it_comes_from(ep: str) -> None:
    known = known_options(ep)
    assert known.ep == ep
    assert known.source
    for name, option in known.options.items():
        assert name == name.strip().lower(), name
        assert not (option.values and option.whole_number), f"{name} takes words or numbers, not both"


def test_a_list_with_a_field_nobody_knows_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"ep": "x", "source": "y", "options": {"a": {"vlaues": []}}}', type=KnownOptions)


@pytest.mark.parametrize("ep", sorted(EP_BY_NAME))
def test_every_word_on_a_list_is_accepted(ep: str) -> None:
    for name, option in known_options(ep).options.items():
        if option.owner is None:
            for word in option.values:
                check_options(ep, None, {name: word})


def test_no_options_need_no_list() -> None:
    check_options("an EP nobody knows", None, {})


def test_an_unknown_option_suggests_the_nearest_and_the_way_to_pass_it_all_the_same() -> None:
    problem = refusal("qnn", {"htp_performance_mod": "burst"})
    assert problem.message == "unknown option of qnn 'htp_performance_mod'"
    assert problem.remedy is not None
    assert problem.remedy.startswith("did you mean 'htp_performance_mode'?")
    assert "unchecked_options=" in problem.remedy


def test_the_cpu_takes_no_options() -> None:
    assert "unknown option of cpu" in refusal("cpu", {"threads": "4"}).message


def test_a_word_the_option_does_not_take_is_answered_with_those_it_does() -> None:
    problem = refusal("qnn", {"profiling_level": "loud"})
    assert problem.message == "option 'profiling_level' of qnn does not take 'loud'"
    assert problem.remedy == "use off, basic, detailed, optrace."


@pytest.mark.parametrize("value", ["8", "-1", "0"])
def test_a_whole_number_is_accepted(value: str) -> None:
    check_options("qnn", None, {"vtcm_mb": value})


@pytest.mark.parametrize("value", ["", "8.0", "eight", "0x8", " 8", "8\n", "٣"])
def test_a_whole_number_is_nothing_else(value: str) -> None:
    assert refusal("qnn", {"vtcm_mb": value}).message == (
        f"option 'vtcm_mb' of qnn takes a whole number, not {value!r}"
    )


@pytest.mark.parametrize("version", ["2.6.9", "2.6", "1.99.0", "2.6.0.dev20260101"])
def test_an_option_newer_than_the_ep_is_refused_since_the_ep_would_ignore_it(version: str) -> None:
    problem = refusal("qnn", {"skip_backend_op_validation": "1"}, version)
    assert problem.message == (
        f"option 'skip_backend_op_validation' needs qnn 2.7; {version} is installed and would ignore it"
    )


@pytest.mark.parametrize("version", ["2.7", "2.7.0", "2.7.1", "2.10.0", "3", None])
def test_an_option_the_ep_has_or_may_have_is_accepted(version: str | None) -> None:
    check_options("qnn", version, {"skip_backend_op_validation": "1"})


def test_a_release_is_the_same_with_and_without_its_last_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = KnownOptions(ep="qnn", source="made up", options={"new": KnownOption(since="2.7.0")})
    monkeypatch.setattr("pytest_winml.providers.options.known_options", lambda ep: listed)
    check_options("qnn", "2.7", {"new": "1"})
    assert "needs qnn 2.7.0" in refusal("qnn", {"new": "1"}, "2.6.9").message


@pytest.mark.parametrize(
    ("ep", "option", "owner"),
    [
        ("qnn", "enable_framework_op_trace", "the session, which always records placement"),
        ("qnn", "framework_op_trace_dir", "the session, which always records placement"),
        ("openvino", "device_type", "the target's device"),
    ],
)
def test_an_option_that_belongs_to_us_cannot_be_set_by_hand(ep: str, option: str, owner: str) -> None:
    assert refusal(ep, {option: "1"}, "9.9").message == (
        f"option {option!r} of {ep} belongs to {owner}: it cannot be set by hand"
    )


def occurs(name: bytes, library: mmap.mmap) -> bool:
    """Whole, or as the pieces a compiler makes of a literal that is longer than one comparison.

    Pieces prove less than the whole name, so a name of one piece must be there whole.
    """
    if library.find(name) >= 0:
        return True
    if len(name) <= PIECE:
        return False
    return all(library.find(name[start : start + PIECE]) >= 0 for start in range(0, len(name) - PIECE + 1, PIECE))


def test_a_name_is_looked_for_whole_and_then_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "library"
    path.write_bytes(b"..\0rpc_control_late\0..vtcm_m..")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
        assert occurs(b"rpc_control_latency", library)
        assert not occurs(b"vtcm_mb", library)
        assert not occurs(b"skip_backend_op_validation", library)


def test_every_option_on_the_qnn_list_is_in_the_installed_library() -> None:
    qnn: Any = pytest.importorskip("onnxruntime_qnn", reason="needs onnxruntime-qnn: install [qnn]")
    path = Path(qnn.get_library_path())
    if not path.is_file():
        pytest.skip(f"{path.name} is not part of the onnxruntime-qnn for this platform")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library:
        missing = [name for name in known_options("qnn").options if not occurs(name.encode(), library)]
        assert missing == []
        assert not occurs(b"enable_time_travel", library), "the search can say no"
