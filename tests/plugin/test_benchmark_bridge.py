"""pytest-benchmark's options over timed tests. The device is simulated; pytest-benchmark is the installed one."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.benchmark_bridge import ReplayClock
from tests.platforms import needs_runtime

pytest.importorskip("pytest_benchmark")

if TYPE_CHECKING:
    from collections.abc import Callable

    Suite = Callable[[str], pytest.Pytester]
    Report = Callable[[], dict[str, Any]]

pytestmark = needs_runtime

SIMULATED = """
import pytest_winml.measure.device as device
from pytest_winml.measure.simulated import SimulatedTimedDevice
from pytest_winml.simulator import SimulatedDevice

real = device.WorkerDevice
device.WorkerDevice = lambda *_, **__: SimulatedTimedDevice(SimulatedDevice("calm", seed=3, slowdown=-0.2))

def pytest_unconfigure():  # a run inside the process of the tests shares its modules
    device.WorkerDevice = real
"""
TIMED = """
@pytest.mark.winml(model=CNN, target="cpu")
@pytest.mark.winml_gate(latency="<1s")
def test_timed(winml_latency):
    winml_latency.check()
"""
PLAIN = """
@pytest.mark.winml(model=CNN, target="cpu")
def test_plain(winml): ...

def test_other(): ...
"""
ODD = """
@pytest.mark.benchmark(group="mine")
@pytest.mark.winml(model=CNN, target="cpu")
@pytest.mark.winml_gate(latency="<1ns")
def test_over_its_limit(winml_latency):
    winml_latency.check()

@pytest.mark.winml(model=CNN, target="cpu")
def test_times_nothing(winml_latency): ...

@pytest.mark.winml(model=CNN, target="cpu")
def test_breaks_before(winml_latency):
    raise OSError

@pytest.mark.winml(model=CNN, target="vitisai:npu")
def test_absent(winml_latency):
    winml_latency.measure()

@pytest.mark.winml(model=CNN, target="cpu")
def test_fills_it_itself(winml_latency, benchmark):
    winml_latency.measure()
    benchmark.pedantic(sum, ([1, 2],), rounds=7)

@pytest.mark.winml(model=CNN, target="cpu", recipes=[Recipe(name="a"), Recipe(name="b")])
def test_compares(winml_latency):
    winml_latency.measure()
    winml_latency.compare(recipe=Recipe(optimize="none"))
"""
STRICTLY = ("-W", "error")


@pytest.fixture
def timed(suite: Suite) -> Suite:
    """A project whose times are the simulator's."""

    def make(text: str) -> pytest.Pytester:
        pytester = suite(text)
        pytester.makeconftest(SIMULATED)
        return pytester

    return make


def series(pytester: pytest.Pytester) -> dict[str, dict[str, Any]]:
    content = json.loads((pytester.path / "out.json").read_text(encoding="utf-8"))
    return {one["name"].partition("[")[0] + "[" + one["param"] + "]": one for one in content["benchmarks"]}


def measured_ns(item: dict[str, Any]) -> list[int]:
    blocks = [block for session in item["measured"]["sessions"] for block in session]
    return [time for block in blocks if block["arm"] == "target" for time in block["times_ns"]]


def test_a_timed_test_is_one_series_of_its_raw_samples_with_gates_beside_it(timed: Suite, report: Report) -> None:
    pytester = timed(TIMED + PLAIN)
    result = pytester.runpytest(*STRICTLY, "--benchmark-json=out.json")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*benchmark: 1 tests*", "test_timed*digits-cnn-default-cpu*800 *1"])
    (name, one), *others = series(pytester).items()
    assert not others
    assert name == "test_timed[digits-cnn-default-cpu]"
    (item,) = (item for item in report()["items"] if item["measured"])
    assert one["stats"]["data"] == [time / 1e9 for time in measured_ns(item)]
    assert one["stats"]["iterations"] == 1
    assert one["options"]["timer"] == "winml"
    assert one["params"] == {"winml_case": "digits-cnn-default-cpu"}
    said = one["extra_info"]["winml"]
    assert (said["case"], said["protocol"], said["sessions"]) == ("digits-cnn-default-cpu", "standard", 4)
    assert [(gate["limit"]["text"], gate["status"]) for gate in said["gates"]] == [("<1s", "passed")]


def test_a_series_stays_when_the_test_fails_after_it_and_is_missing_when_nothing_was_timed(timed: Suite) -> None:
    """pytest-benchmark's own habits; and it is told when it has nothing to complain of."""
    pytester = timed(ODD)
    result = pytester.runpytest(*STRICTLY, "--benchmark-json=out.json")
    result.assert_outcomes(passed=4, failed=2, skipped=1)
    found = series(pytester)
    assert {name.partition("[")[0] for name in found} == {
        "test_over_its_limit",
        "test_fills_it_itself",
        "test_compares",
    }
    over = found["test_over_its_limit[digits-cnn-default-cpu]"]
    assert over["group"] == "mine", "the user's own mark counts beside ours"
    assert over["extra_info"]["winml"]["gates"][0]["status"] == "failed"
    own = found["test_fills_it_itself[digits-cnn-default-cpu]"]
    assert own["stats"]["rounds"] == 7
    assert own["stats"]["max"] < 1, "a real clock, since nothing is replayed"
    assert own["extra_info"]["winml"]["sessions"] == 4
    (comparison,) = found["test_compares[digits-cnn-a-cpu]"]["extra_info"]["winml"]["comparisons"]
    assert comparison["verdict"]["outcome"] == "IMPROVED"
    assert comparison["verdict"]["effect"] == pytest.approx(-0.2, abs=0.02)


def test_saving_only_benchmarks_and_comparing_with_what_was_saved(timed: Suite) -> None:
    pytester = timed(TIMED + PLAIN)
    saved = pytester.runpytest(*STRICTLY, "--benchmark-only", "--benchmark-save=first")
    saved.assert_outcomes(passed=1, skipped=2)
    assert len(list(pytester.path.glob(".benchmarks/*/0001_first.json"))) == 1
    compared = pytester.runpytest(
        *STRICTLY, "--benchmark-only", "--benchmark-compare=0001", "--benchmark-compare-fail=median:500%"
    )
    compared.assert_outcomes(passed=1, skipped=2)
    compared.stdout.fnmatch_lines(["*benchmark: 2 tests*", "test_timed*(*", "test_timed*(*"])
    assert "(NOW)" in compared.stdout.str()
    assert "(0001_first)" in compared.stdout.str()


@pytest.mark.skipif(find_spec("pygal") is None, reason="pytest-benchmark[histogram] is not installed")
def test_a_histogram_is_drawn_of_the_series(timed: Suite) -> None:
    """In a process of its own: what pygal imports takes importlib.metadata apart for whoever shares its process."""
    pytester = timed(TIMED)
    pytester.runpytest_subprocess("--benchmark-histogram=drawn").assert_outcomes(passed=1)
    assert "test_timed" in (pytester.path / "drawn.svg").read_text(encoding="utf-8")


def test_skipping_benchmarks_skips_timed_tests_and_no_others(timed: Suite, report: Report) -> None:
    result = timed(TIMED + PLAIN).runpytest(*STRICTLY, "--benchmark-skip")
    result.assert_outcomes(passed=2, skipped=1)
    (skipped,) = (item for item in report()["items"] if item["outcome"] == "skipped")
    assert skipped["nodeid"] == "test_it.py::test_timed[digits-cnn-default-cpu]"
    assert skipped["measured"] is None


@pytest.mark.parametrize("off", [("--benchmark-disable",), ("-p", "no:benchmark")], ids=["disabled", "not there"])
def test_without_pytest_benchmark_timed_tests_are_timed_all_the_same(
    timed: Suite, report: Report, off: tuple[str, ...]
) -> None:
    result = timed(TIMED).runpytest(*STRICTLY, *off)
    result.assert_outcomes(passed=1)
    assert len(report()["items"][0]["measured"]["sessions"]) == 4
    assert "Rounds" not in result.stdout.str()


def test_pytest_benchmark_is_found_where_plugins_are_named_one_by_one(
    timed: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester = timed(TIMED)
    named = ("-p", "pytest_winml.plugin", "-p", "pytest_benchmark.plugin")
    pytester.runpytest_subprocess(*named, "--benchmark-json=out.json").assert_outcomes(passed=1)
    assert list(series(pytester)) == ["test_timed[digits-cnn-default-cpu]"]


def test_under_xdist_the_report_is_complete_and_one_line_says_why_there_is_no_other(
    timed: Suite, report: Report
) -> None:
    line = "pytest-benchmark is off under xdist, by its own rule: these times are in our report alone."
    result = timed(TIMED).runpytest("-n", "1")
    result.assert_outcomes(passed=1)
    assert result.outlines.count(line) == 1
    assert len(report()["items"][0]["measured"]["sessions"]) == 4


@pytest.mark.parametrize("text", [TIMED, PLAIN], ids=["told to be off", "nothing timed"])
def test_under_xdist_the_line_is_left_out_where_nobody_would_miss_the_tables(timed: Suite, text: str) -> None:
    off = ("--benchmark-disable",) if text == TIMED else ()
    result = timed(text).runpytest("-n", "1", *off)
    assert result.ret == 0
    assert "off under xdist" not in result.stdout.str()


def test_the_clock_replays_samples_to_the_nanosecond_and_tells_the_time_otherwise() -> None:
    clock, durations = ReplayClock(), []

    class Benchmark:
        def pedantic(self, function: Callable[[], None], *, rounds: int) -> None:
            for _ in range(rounds):
                start = clock()
                function()
                durations.append(clock() - start)

    assert 0 < clock() <= clock()
    clock.replay(Benchmark(), (1, 14_003, 5_000_000_001))
    assert durations == [1e-9, 14_003e-9, 5.000000001]
    assert clock() > 0
