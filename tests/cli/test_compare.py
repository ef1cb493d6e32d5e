"""`pytest-winml compare`: what it says of two reports, and the exit status scripts rely on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from pytest_winml.cli import main
from pytest_winml.records.latency import Block
from pytest_winml.records.measurement import CANARY, TARGET, Measured, Memory, ProtocolName
from pytest_winml.records.report import RunReport
from pytest_winml.simulator import SimulatedDevice
from pytest_winml.stats.paired import draw_session
from tests.report.run import ENVIRONMENT, FINISHED, STARTED, item

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_winml.records.machine import Environment
    from pytest_winml.records.report import ItemFinished

    Write = Callable[..., str]

SESSIONS = 12


def measured(
    slowdown: float = 0.0,
    *,
    seed: int = 1,
    sessions: int = SESSIONS,
    canary: str = "canary-1",
    artifact: str = "artifact-1",
    protocol: ProtocolName = "rigorous",
) -> Measured:
    """A day of the simulator's: the target slowed down, the canary as ever."""
    device = SimulatedDevice("calm", seed=seed, slowdowns={TARGET: slowdown})
    plans = [
        draw_session(np.random.default_rng((seed, number)), number, 2, 12, (CANARY, TARGET))
        for number in range(1, sessions + 1)
    ]
    return Measured(
        protocol=protocol,
        artifact_key=artifact,
        canary_key=canary,
        sessions=tuple(
            tuple(Block(arm=arm, times_ns=tuple(times.tolist())) for arm, times in device.run(plan)) for plan in plans
        ),
        memory=Memory(artifact_bytes=1000),
        create_ms=1.0,
        first_run_ms=1.0,
        steady=True,
        device_s=1.0,
    )


def timed(model: str, figures: Measured, *, test: str = "test_latency") -> ItemFinished:
    return msgspec.structs.replace(item(model, "cpu", "passed", test=test), measured=figures)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a report of these items, and answers with its path."""

    def make(name: str, *items: ItemFinished, host: Environment = ENVIRONMENT, finished: bool = True) -> str:
        started = msgspec.structs.replace(STARTED, environment=host)
        report = RunReport(started=started, items=items, finished=FINISHED if finished else None)
        path = tmp_path / name
        path.write_bytes(msgspec.json.encode(report))
        return str(path)

    return make


@pytest.fixture
def before(write: Write) -> str:
    return write("before.json", timed("digits-cnn", measured()))


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    assert main(["compare", *arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("slowdown", "outcome"),
    [(0.25, "REGRESSED"), (-0.2, "IMPROVED"), (0.0, "EQUIVALENT")],
    ids=["slower", "faster", "as before"],
)
def test_a_change_is_told_with_its_interval_and_only_a_slowdown_exits_1(
    write: Write, before: str, capsys: pytest.CaptureFixture[str], slowdown: float, outcome: str
) -> None:
    after = write("after.json", timed("digits-cnn", measured(slowdown, seed=2, artifact="artifact-2")))
    comparison = answer(capsys, before, after, status=int(outcome == "REGRESSED"))
    (case,) = comparison["cases"]
    verdict = case["verdict"]
    assert (verdict["outcome"], verdict["route"]) == (outcome, "stored")
    assert verdict["effect"] == pytest.approx(slowdown, abs=0.05)
    low, high = verdict["interval"]
    assert low <= verdict["effect"] <= high
    assert case["after_ms"] / case["before_ms"] == pytest.approx(1 + slowdown, abs=0.4)
    assert (case["sessions_before"], case["sessions_after"]) == (SESSIONS, SESSIONS)
    assert case["q_value"] is None, "one case is no family"
    assert comparison["schema_version"] == 1


def test_a_report_against_itself_is_equivalent(before: str, capsys: pytest.CaptureFixture[str]) -> None:
    (case,) = answer(capsys, before, before)["cases"]
    assert case["verdict"]["outcome"] == "EQUIVALENT"
    assert case["verdict"]["effect"] == 0.0


def test_swapping_the_reports_turns_slower_into_faster(
    write: Write, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    after = write("after.json", timed("digits-cnn", measured(0.25, seed=2)))
    (there,) = answer(capsys, before, after, status=1)["cases"]
    (back,) = answer(capsys, after, before)["cases"]
    assert (there["verdict"]["outcome"], back["verdict"]["outcome"]) == ("REGRESSED", "IMPROVED")
    assert (1 + there["verdict"]["effect"]) * (1 + back["verdict"]["effect"]) == pytest.approx(1)


def test_a_wider_tolerance_lets_more_pass(write: Write, before: str, capsys: pytest.CaptureFixture[str]) -> None:
    after = write("after.json", timed("digits-cnn", measured(0.12, seed=2)))
    assert answer(capsys, before, after, status=1)["tolerance"] == 0.10
    (case,) = answer(capsys, before, after, "--tolerance", "60%")["cases"]
    assert case["verdict"]["outcome"] == "EQUIVALENT"


def test_the_same_artifact_that_is_slower_is_said_to_be_the_same(
    write: Write, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    after = write("after.json", timed("digits-cnn", measured(0.25, seed=2)))
    (case,) = answer(capsys, before, after, status=1)["cases"]
    assert "both runs timed the same artifact: what changed is not the model." in case["notes"]


def test_many_cases_have_q_values_and_those_in_one_run_only_are_listed(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    old = write(
        "before.json",
        timed("digits-cnn", measured()),
        timed("digits-vit", measured(seed=3)),
        timed("digits-gone", measured(seed=4)),
    )
    new = write(
        "after.json",
        timed("digits-cnn", measured(0.3, seed=5)),
        timed("digits-vit", measured(seed=6)),
        timed("digits-new", measured(seed=7)),
        item("digits-untimed", "cpu", "passed"),
    )
    comparison = answer(capsys, old, new, status=1)
    q_values = {case["case"]["model"]: case["q_value"] for case in comparison["cases"]}
    assert q_values.keys() == {"digits-cnn", "digits-vit"}
    assert q_values["digits-cnn"] < 0.05 < q_values["digits-vit"]
    assert (comparison["only_before"], comparison["only_after"]) == (
        ["digits-gone-default-cpu"],
        ["digits-new-default-cpu"],
    )
    assert main(["compare", old, new]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"timed only in {old}: digits-gone-default-cpu" in lines
    assert lines[-1] == "1 regressed, 1 equivalent"


def test_tests_of_one_case_are_taken_together(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    halves = [timed("digits-cnn", measured(seed=seed, sessions=3), test=f"test_{seed}") for seed in (1, 2)]
    both = write("both.json", *halves)
    (case,) = answer(capsys, both, both)["cases"]
    assert (case["sessions_before"], case["verdict"]["outcome"]) == (6, "EQUIVALENT")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"cpu": "another CPU"}, "cpu: AMD Ryzen 7 7840U w/ Radeon 780M Graphics before, another CPU now"),
        ({"runtime": "onnxruntime 1.32.0"}, "runtime_version: 1.31.1 before, 1.32.0 now"),
        ({"os_version": "#2 SMP"}, "os_build: Linux #1 SMP before, Linux #2 SMP now"),
    ],
    ids=["cpu", "runtime", "os"],
)
def test_runs_of_different_machines_are_not_compared_and_the_field_is_named(
    write: Write, before: str, capsys: pytest.CaptureFixture[str], changed: dict[str, str], named: str
) -> None:
    host = msgspec.structs.replace(ENVIRONMENT, **changed)
    after = write("after.json", timed("digits-cnn", measured(0.5, seed=2)), host=host)
    (case,) = answer(capsys, before, after)["cases"]
    assert case["verdict"]["outcome"] == "NOT_COMPARABLE"
    assert case["verdict"]["effect"] is None
    assert named in case["verdict"]["reasons"][0]
    field = named.partition(":")[0]
    (told,) = answer(capsys, before, after, "--ignore-identity", field, status=1)["cases"]
    assert told["verdict"]["outcome"] == "REGRESSED"
    assert f"compared all the same: {named}" in told["notes"], "on record"


def test_what_neither_report_tells_is_taken_as_equal_and_that_is_said(
    before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "driver_version" in answer(capsys, before, before)["taken_as_equal"]


def test_times_relative_to_different_canaries_are_not_compared(
    write: Write, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    after = write("after.json", timed("digits-cnn", measured(canary="canary-2")))
    (case,) = answer(capsys, before, after)["cases"]
    assert case["verdict"]["outcome"] == "NOT_COMPARABLE"
    assert "different canaries" in case["verdict"]["reasons"][0]


def test_too_few_sessions_carry_no_verdict_and_it_says_how_to_get_more(
    write: Write, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    after = write("after.json", timed("digits-cnn", measured(1.0, seed=2, sessions=3)))
    (case,) = answer(capsys, before, after)["cases"]
    assert (case["verdict"]["outcome"], case["verdict"]["interval"]) == ("INCONCLUSIVE", None)
    assert case["verdict"]["effect"] == pytest.approx(1.0, abs=0.1)
    assert "--winml-protocol=rigorous" in case["notes"][0]


def test_a_screen_gives_no_verdict_however_often_it_was_taken(
    write: Write, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    after = write("after.json", timed("digits-cnn", measured(1.0, seed=2, protocol="quick")))
    (case,) = answer(capsys, before, after)["cases"]
    assert case["verdict"]["outcome"] == "INCONCLUSIVE"
    assert case["verdict"]["reasons"][0] == "the quick protocol screens: it gives no verdict."


def as_json(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - a name as the command line has it
        content: dict[str, Any] = json.load(file)
    return content


def times_nothing(report: dict[str, Any]) -> None:
    report["items"][0]["measured"] = None


def other_case(report: dict[str, Any]) -> None:
    report["items"][0]["case"]["id"] = "another"


def newer(report: dict[str, Any]) -> None:
    report["schema_version"] = 99
    report["unheard_of"] = True


def stranger(report: dict[str, Any]) -> None:
    report["items"][0]["measured"]["sessions"][0][0]["arm"] = "A"


def without_a_canary(report: dict[str, Any]) -> None:
    for block in report["items"][0]["measured"]["sessions"][0]:
        block["arm"] = "target"


def backwards(report: dict[str, Any]) -> None:
    report["items"][0]["measured"]["sessions"][0][0]["times_ns"][0] = -5


def no_sessions(report: dict[str, Any]) -> None:
    report["items"][0]["measured"]["sessions"] = []


def no_items(report: dict[str, Any]) -> None:
    del report["items"]


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (times_nothing, "times nothing"),
        (other_case, "no timed case in common"),
        (newer, "has schema 99; this version reads up to"),
        (stranger, "damaged: digits-cnn-default-cpu: a session has times of 'A'"),
        (without_a_canary, "damaged: digits-cnn-default-cpu: there is not one sample"),
        (backwards, "damaged: digits-cnn-default-cpu: a time of -5 ns is none"),
        (no_sessions, "damaged: digits-cnn-default-cpu: there is not one sample"),
        (no_items, "is damaged, or not a run's report"),
    ],
)
def test_a_report_that_cannot_be_used_is_named_and_exits_4(
    before: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[dict[str, Any]], None],
    complaint: str,
) -> None:
    content = as_json(before)
    spoil(content)
    after = tmp_path / "spoiled.json"
    after.write_text(json.dumps(content), encoding="utf-8")
    assert main(["compare", before, str(after)]) == 4
    message = capsys.readouterr().err
    assert str(after) in message
    assert complaint in message


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"benchmarks": []}'])
def test_a_file_that_is_no_report_exits_4(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    assert main(["compare", str(path), before]) == 4
    assert f"pytest-winml: {path} is damaged, or not a run's report" in capsys.readouterr().err


def test_a_file_that_is_not_there_exits_4(before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path / "missing.json", tmp_path):
        assert main(["compare", before, str(path)]) == 4
        assert f"{path} cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["10", "0%", "-5%", "2000%", "nan%", "%", ""])
def test_a_tolerance_that_is_no_share_exits_4(before: str, capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert main(["compare", before, before, f"--tolerance={text}"]) == 4
    assert "write --tolerance 10%" in capsys.readouterr().err


def test_an_unknown_field_to_ignore_exits_4_with_the_nearest(before: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", before, before, "--ignore-identity", "cpuu"]) == 4
    assert "did you mean 'cpu'?" in capsys.readouterr().err


def test_one_file_is_too_few(before: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["compare", before])
    assert stop.value.code == 4


def test_help_has_an_example_and_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    text = capsys.readouterr().out
    assert "pytest-winml compare main/report.json reports/report.json" in text
    assert "exit status: 0" in text
