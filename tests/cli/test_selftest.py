"""`pytest-winml selftest`: what it prints about the harness, and the exit status scripts rely on."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_winml.cli import main
from pytest_winml.errors import WorkerCrashed
from pytest_winml.execute.rwlock import DeviceLocks
from pytest_winml.measure import protocols, sessions
from pytest_winml.measure.comparing import Question
from pytest_winml.measure.protocols import PROTOCOLS, DeviceHabits
from pytest_winml.records.latency import Verdict
from pytest_winml.records.selftest import SelfTest
from pytest_winml.records.target import Target
from pytest_winml.selftest.machine import machine_bench
from pytest_winml.selftest.simulated import SimulatedBench
from pytest_winml.selftest.trials import run_trials
from pytest_winml.session.messages import ProviderSettings
from tests.platforms import needs_qnn, needs_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIMULATED = ("selftest", "--simulate", "calm", "--comparisons", "3", "--seed", "7")


def result(capsys: pytest.CaptureFixture[str], *arguments: str) -> SelfTest:
    assert main([*arguments, "--json"]) == 0
    return msgspec.json.decode(capsys.readouterr().out, type=SelfTest)


def answers(monkeypatch: pytest.MonkeyPatch, *outcomes: Any) -> None:
    """The simulated bench gives these verdicts, or raises these, one after the other."""
    waiting = iter(outcomes)

    def compare(_: object, number: int, question: Question) -> tuple[Verdict, float]:
        outcome = next(waiting)
        if not isinstance(outcome, str):
            raise outcome
        return Verdict(outcome=outcome, effect=0.01, interval=(-0.01, 0.03), sessions=6), 30.0  # type: ignore[arg-type]

    monkeypatch.setattr(SimulatedBench, "compare", compare)


def test_it_prints_a_line_a_comparison_then_a_table_and_what_that_proves(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([*SIMULATED]) == 0
    captured = capsys.readouterr()
    assert not captured.err
    lines = captured.out.splitlines()
    assert (
        lines[0]
        == "a simulated device (calm: a quiet device on its own), compared with itself by the standard protocol"
    )
    assert [line[:26].split() for line in lines[1:7]] == [
        ["1/6", "A/A", "EQUIVALENT"],
        ["2/6", "+10.0", "%", "REGRESSED"],
        ["3/6", "A/A", "EQUIVALENT"],
        ["4/6", "+10.0", "%", "REGRESSED"],
        ["5/6", "A/A", "EQUIVALENT"],
        ["6/6", "+10.0", "%", "REGRESSED"],
    ]
    assert lines[-3:] == [
        "0 of 3 A/A comparisons raised an alarm: the false-alarm rate is below 63.2 % with 95 % confidence.",
        "3 of 3 injected slowdowns were found: the power is above 36.8 % with 95 % confidence.",
        "Consistent with what gates promise, and not yet proof of it. More comparisons say more.",
    ]


def test_a_seed_repeats_it_and_another_gives_other_times(capsys: pytest.CaptureFixture[str]) -> None:
    def verdicts(seed: str) -> list[Verdict]:
        found = result(capsys, "selftest", "--simulate", "dvfs", "--comparisons", "1", "--seed", seed)
        return [trial.verdict for trial in found.trials]

    assert verdicts("11") == verdicts("11")
    assert verdicts("11") != verdicts("12")


def test_without_a_seed_one_is_drawn_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("selftest", "--simulate", "calm", "--comparisons", "1")
    found = result(capsys, *arguments)
    assert found.seed is not None
    again = result(capsys, *arguments, "--seed", str(found.seed))
    assert [trial.verdict for trial in again.trials] == [trial.verdict for trial in found.trials]


def test_json_is_the_whole_of_it_and_progress_goes_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SIMULATED, "--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert (found["schema_version"], found["planned"], found["consistent"]) == (1, 6, True)
    assert found["false_alarms"] == {
        "hits": 0, "trials": 3, "share": 0.0, "at_least": 0.0, "at_most": pytest.approx(0.632, abs=1e-3),
        "promised_least": 0.0, "promised_most": 0.05,
    }  # fmt: skip
    assert [trial["injected"] for trial in found["trials"]] == [0.0, 0.1] * 3
    assert len(captured.err.splitlines()) == 7


def test_a_noisy_device_raises_no_more_alarms_than_promised(capsys: pytest.CaptureFixture[str]) -> None:
    found = result(capsys, "selftest", "--simulate", "spikes", "--comparisons", "20", "--seed", "3")
    assert found.false_alarms.trials == found.power.trials == 20
    assert not found.false_alarms.too_high
    assert not found.power.too_low


def test_false_alarms_that_the_bound_excludes_exit_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, *["REGRESSED"] * 6)
    assert main([*SIMULATED]) == 1
    assert "NOT HELD: more false alarms than promised." in capsys.readouterr().out


def test_slowdowns_that_are_missed_exit_1(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, *["EQUIVALENT", "INCONCLUSIVE"] * 3)
    assert main([*SIMULATED]) == 1
    assert "NOT HELD: more slowdowns that are missed than promised." in capsys.readouterr().out


def test_an_interrupt_shows_what_there_is_and_exits_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, "EQUIVALENT", "REGRESSED", KeyboardInterrupt())
    assert main([*SIMULATED]) == 2
    output = capsys.readouterr().out
    assert "Interrupted after 2 of 6 comparisons." in output
    assert "0 of 1 A/A comparison raised an alarm" in output


def test_a_comparison_that_fails_shows_what_there_is_and_exits_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, "EQUIVALENT", WorkerCrashed("the worker died", remedy="raise --winml-timeout."))
    assert main([*SIMULATED]) == 1
    captured = capsys.readouterr()
    assert "0 of 1 A/A comparison raised an alarm" in captured.out
    assert "the worker died" in captured.err
    assert "--winml-" not in captured.err


def test_on_a_device_five_of_each_of_the_embedded_model_are_compared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Bench:
        subject = "digits-vit on cpu"
        most_sessions = 16

        def compare(self, number: int, question: Question) -> tuple[Verdict, float]:
            assert (question.alternative, question.tolerance, question.most_sessions) == ("slower", 0.10, 16)
            return Verdict(outcome="REGRESSED" if question.slow_down else "EQUIVALENT"), 30.0

    asked: list[object] = []

    @contextmanager
    def bench(model: str, target: Target, protocol: object, *_: object, **__: object) -> Iterator[Bench]:
        asked.extend([model, target.spec, protocol])
        yield Bench()

    monkeypatch.setattr("pytest_winml.selftest.machine.machine_bench", bench)
    found = result(capsys, "selftest", "--target", "CPU")
    assert asked == ["digits-vit", "cpu", PROTOCOLS["standard"]]
    assert (found.planned, len(found.trials), found.seed) == (10, 10, None)


def test_what_an_earlier_run_has_done_is_not_repeated() -> None:
    bench = SimulatedBench("calm", PROTOCOLS["standard"], seed=1, on_progress=lambda _: None)
    first = list(run_trials(bench, 1))
    assert [trial.number for trial in run_trials(bench, 2, done=first)] == [3, 4]


@needs_runtime
def test_the_machine_at_hand_is_timed_as_gates_time_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One session can carry no verdict, but everything that a comparison needs has then run once."""
    monkeypatch.setattr(sessions, "MOST_REPEATED", 0)
    monkeypatch.setitem(protocols._BY_DEVICE, "cpu", DeviceHabits(warm_up_s=0.01, longest_warm_up_s=0.05))
    heard: list[str] = []
    protocol = msgspec.structs.replace(PROTOCOLS["standard"], most_sessions=1)
    with machine_bench(
        "digits-vit",
        Target("cpu"),
        protocol,
        ProviderSettings(),
        timeout_s=120,
        store=tmp_path / "store",
        locks=DeviceLocks(tmp_path),
        on_progress=heard.append,
    ) as bench:
        assert bench.subject == "digits-vit on cpu"
        question = Question(alternative="slower", most_sessions=bench.most_sessions, slow_down={"B": 0.10})
        verdict, device_s = bench.compare(1, question)
    assert (verdict.outcome, verdict.sessions) == ("INCONCLUSIVE", 1)
    assert verdict.effect is not None
    assert device_s > 1
    assert any("self-test 1" in text for text in heard)


@needs_qnn
def test_an_emulated_target_is_refused_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "--target", "qnn:npu", "--offline"]) == 4
    assert "qnn:npu is emulated here, and times of an emulator mean nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--target"),
        (["--target", "cpu", "--simulate", "calm"], "not allowed with"),
        (["--target", "cpuu"], "did you mean 'cpu'?"),
        (["--target", "cpu", "--model", "digits-vitt"], "did you mean 'digits-vit'?"),
        (["--target", "cpu", "--model", ""], "unknown embedded model"),
        (["--target", "cpu", "--seed", "7"], "--seed repeats a simulation"),
        (["--target", "cpu", "--timeout", "soon"], "--timeout 'soon'"),
        (["--simulate", "thermall"], "did you mean 'thermal'?"),
        (["--simulate", ""], "unknown regime"),
        (["--simulate", "calm", "--model", "digits-vit"], "--simulate has no model"),
        (["--simulate", "calm", "--protocol", "quick"], "the quick protocol screens"),
        (["--simulate", "calm", "--protocol", "standart"], "did you mean 'standard'?"),
        (["--simulate", "calm", "--comparisons", "0"], "from 1 to 10000"),
        (["--simulate", "calm", "--comparisons", "-3"], "--comparisons"),
        (["--simulate", "calm", "--comparisons", "1.5"], "whole number"),
        (["--simulate", "calm", "--comparisons", "²"], "whole number"),
        (["--simulate", "calm", "--comparisons", "9" * 5000], "whole number"),
        (["--simulate", "calm", "--seed", "nan"], "whole number"),
    ],
)
def test_a_mistake_in_the_command_exits_4(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: object = main(["selftest", *arguments])
    except SystemExit as stopped:
        status = stopped.code
    captured = capsys.readouterr()
    assert status == 4
    assert says in captured.err
    assert "--winml-" not in captured.err, "options are those of this command"
    assert not captured.out


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["selftest", "--help"])
    assert stopped.value.code == 0
    assert "pytest-winml selftest --simulate thermal" in capsys.readouterr().out
