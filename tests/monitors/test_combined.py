"""Several monitors in one window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.errors import MonitorError
from pytest_winml.monitors.combined import Monitors
from pytest_winml.records.trace import HardwareUse, OpTrace, TracedOperator, TraceMetadata
from pytest_winml.session.monitoring import MonitorOptions, Window
from tests.monitors.profiles import CPU, QNN, window

if TYPE_CHECKING:
    from pathlib import Path


class Told:
    """A monitor that writes down what it is asked, and fails at what it is told to."""

    needs_release = False

    def __init__(
        self, name: str, log: list[str], *, ep: str | None = None, fails: str = "", result: Any = None, **options: Any
    ) -> None:
        self.name, self.log, self.ep, self.fails, self.result = name, log, ep, fails, result
        self.options = MonitorOptions(**options)

    def _note(self, step: str) -> None:
        self.log.append(f"{self.name} {step}")
        if self.fails == step:
            raise RuntimeError(f"{self.name} cannot {step}")

    def prepare(self, folder: Path) -> MonitorOptions:
        self._note("prepare")
        return self.options

    def begin(self, window: Window) -> None:
        self._note("begin")

    def end(self) -> None:
        self._note("end")

    def collect(self, window: Window) -> Any:
        self._note("collect")
        return self.result

    def discard(self) -> None:
        self._note("discard")


def trace(**fields: Any) -> OpTrace:
    return OpTrace(metadata=TraceMetadata(target="t", ep=QNN, backend="b"), status="ok", **fields)


def operator(name: str, ep: str) -> TracedOperator:
    return TracedOperator(name=name, op_type="Conv", ep=ep, meaning="kernel wall time")


def test_the_primarys_result_gets_the_hardwares_use(tmp_path: Path) -> None:
    use = HardwareUse(device="npu")
    both = Monitors(Told("a", [], result=trace()), Told("b", [], result=use))
    assert both.collect(window(None)) == trace(hardware=use)


def test_operators_of_an_ep_that_the_primary_does_not_tell_of_are_added(tmp_path: Path) -> None:
    first = trace(operators=(operator("conv", QNN),))
    second = trace(operators=(operator("partition 0", QNN), operator("middle", CPU)), statistics={"middle": {}})
    joined = Monitors(Told("a", [], result=first), Told("b", [], result=second)).collect(window(None))
    assert [one.name for one in joined.operators] == ["conv", "middle"]
    assert joined.statistics == {"middle": {}}


def test_a_second_trace_that_failed_is_a_note(tmp_path: Path) -> None:
    failed = OpTrace(metadata=trace().metadata, status="parse_failed", error="line 3")
    joined = Monitors(Told("a", [], result=trace()), Told("b", [], result=failed)).collect(window(None))
    assert joined.status == "ok"
    assert joined.notes == ("b: parse_failed: line 3",)


def test_options_are_merged(tmp_path: Path) -> None:
    one = Told("a", [], provider_options={"x": "1"}, watched=("f", "g"))
    two = Told("b", [], profile_prefix="p", watched=("g", "h"))
    assert Monitors(one, two).prepare(tmp_path) == MonitorOptions(
        provider_options={"x": "1"}, profile_prefix="p", watched=("f", "g", "h")
    )


@pytest.mark.parametrize(
    "options", [{"provider_options": {"x": "1"}}, {"session_entries": {"x": "1"}}, {"profile_prefix": "p"}]
)
def test_two_that_want_the_same_are_an_error_and_both_are_discarded(tmp_path: Path, options: Any) -> None:
    log: list[str] = []
    with pytest.raises(MonitorError, match="so does another monitor"):
        Monitors(Told("a", log, **options), Told("b", log, **options)).prepare(tmp_path)
    assert log == ["a prepare", "b prepare", "b discard", "a discard"]


def test_one_that_cannot_be_prepared_is_not_discarded(tmp_path: Path) -> None:
    log: list[str] = []
    with pytest.raises(RuntimeError, match="b cannot prepare"):
        Monitors(Told("a", log), Told("b", log, fails="prepare")).prepare(tmp_path)
    assert log == ["a prepare", "b prepare", "a discard"]


def test_one_that_cannot_begin_ends_those_that_have(tmp_path: Path) -> None:
    log: list[str] = []
    with pytest.raises(RuntimeError, match="b cannot begin"):
        Monitors(Told("a", log, fails="end"), Told("b", log, fails="begin")).begin(window(None))
    assert log == ["a begin", "b begin", "a end"]


def test_all_end_and_the_first_error_tells_of_the_others(tmp_path: Path) -> None:
    log: list[str] = []
    with pytest.raises(RuntimeError, match="b cannot end") as caught:
        Monitors(Told("a", log, fails="end"), Told("b", log, fails="end")).end()
    assert log == ["b end", "a end"]
    assert "a cannot end" in caught.value.__notes__[0]


def test_the_ep_and_the_need_for_release_are_those_of_any(tmp_path: Path) -> None:
    both = Monitors(Told("a", [], ep=QNN), Told("b", []))
    assert (both.ep, both.needs_release) == (QNN, False)
    with pytest.raises(MonitorError, match="one window is of one EP"):
        Monitors(Told("a", [], ep=QNN), Told("b", [], ep=CPU))
