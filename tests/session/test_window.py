"""The window of a monitor: what is called in which order, and whose error is heard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.errors import MonitorError
from pytest_winml.records.placement import Placement
from pytest_winml.session.messages import OpenedSession, RunAnswer
from pytest_winml.session.monitoring import MonitorOptions, NullMonitor, Span, Window
from pytest_winml.session.window import Windows

if TYPE_CHECKING:
    from pathlib import Path

QNN = "QNNExecutionProvider"
PLACEMENT = Placement(
    target="qnn:npu", target_nodes=(), fallback_nodes=(), boundary_nodes=(), partitions=1, emulated=True
)


class Session:
    """What a window needs of an open session."""

    worker_pid = 7

    def __init__(self, calls: list[str], *, fails: str = "") -> None:
        self._calls = calls
        self._fails = fails
        self.opened = OpenedSession(session_id=1, placement=PLACEMENT, options={}, log="")

    def _called(self, name: str) -> None:
        self._calls.append(f"session {name}")
        if self._fails == name:
            raise OSError(name)

    def observed_run(self, _: object) -> RunAnswer:
        self._called("run")
        return RunAnswer(outputs={}, elapsed_us=5.0, spans={"a.csv": Span(start=1, end=2)})

    def end_profiling(self) -> str:
        self._called("end_profiling")
        return "profile.json"

    def close(self) -> None:
        self._called("close")


class Watching(NullMonitor):
    def __init__(
        self, calls: list[str], *, options: MonitorOptions | None = None, fails: str = "", ep: str | None = QNN
    ) -> None:
        self._calls = calls
        self._options = options or MonitorOptions()
        self._fails = fails
        self.ep = ep
        self.windows: list[Window] = []

    def _called(self, name: str) -> None:
        self._calls.append(f"monitor {name}")
        if name == self._fails:
            raise RuntimeError(name)

    def prepare(self, folder: Path) -> MonitorOptions:
        self._called("prepare")
        return self._options

    def begin(self, window: Window) -> None:
        self._called("begin")
        self.windows.append(window)

    def end(self) -> None:
        self._called("end")

    def collect(self, window: Window) -> str:  # type: ignore[override]
        self._called("collect")
        self.windows.append(window)
        return "result"

    def discard(self) -> None:
        self._called("discard")


@pytest.fixture
def calls() -> list[str]:
    return []


def observe(monitor: Any, session: Session, folder: Path, windows: Windows | None = None) -> Any:
    def open_session(_: MonitorOptions) -> Any:
        session._called("open")
        return session

    return (windows or Windows()).observe(
        monitor, open_session, provider=QNN, model_path=folder / "model.onnx", folder=folder
    )


def test_the_order_of_a_window_that_goes_well(calls: list[str], tmp_path: Path) -> None:
    monitor = Watching(calls)
    with observe(monitor, Session(calls), tmp_path) as observed:
        observed.run({}, warm_up=True)
        observed.run({})
        before = observed.result
    assert (before, observed.result) == (None, "result")
    assert calls == [
        "monitor prepare", "session open", "monitor begin", "session run", "session run",
        "monitor end", "monitor collect", "session close",
    ]  # fmt: skip
    assert [run.warm_up for run in monitor.windows[-1].runs] == [True, False]
    assert monitor.windows[0].runs == ()
    assert monitor.windows[-1].runs[0].spans == {"a.csv": Span(start=1, end=2)}


def test_a_monitor_that_needs_it_collects_when_the_session_is_gone(calls: list[str], tmp_path: Path) -> None:
    monitor = Watching(calls)
    monitor.needs_release = True
    with observe(monitor, Session(calls), tmp_path):
        pass
    assert calls[-4:] == ["monitor end", "session close", "monitor collect", "session close"]


def test_the_profile_is_written_out_before_it_is_collected(calls: list[str], tmp_path: Path) -> None:
    monitor = Watching(calls, options=MonitorOptions(profile_prefix="x"))
    with observe(monitor, Session(calls), tmp_path):
        pass
    assert calls[-4:] == ["monitor end", "session end_profiling", "monitor collect", "session close"]
    assert monitor.windows[-1].profile_path == "profile.json"


def test_the_error_of_the_body_is_heard_and_later_ones_are_noted_on_it(calls: list[str], tmp_path: Path) -> None:
    window = observe(Watching(calls, fails="collect"), Session(calls, fails="close"), tmp_path)
    with pytest.raises(ValueError, match="the body") as heard:
        _raise_in(window, ValueError("the body"))
    notes = heard.value.__notes__
    assert ["RuntimeError('collect')" in notes[0], "OSError('close')" in notes[1]] == [True, True]
    assert calls[-3:] == ["monitor end", "monitor collect", "session close"]


def test_the_error_of_the_monitor_comes_before_that_of_releasing(calls: list[str], tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="end"),
        observe(Watching(calls, fails="end"), Session(calls, fails="close"), tmp_path),
    ):
        pass
    assert calls[-3:] == ["monitor end", "monitor collect", "session close"]


def test_an_interrupt_goes_through_and_everything_is_closed(calls: list[str], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _raise_in(observe(Watching(calls), Session(calls), tmp_path), KeyboardInterrupt())
    assert calls[-1] == "session close"


@pytest.mark.parametrize(
    ("monitor_fails", "session_fails", "last"),
    [("begin", "", ["session close", "monitor discard"]), ("", "open", ["session open", "monitor discard"])],
)
def test_a_window_that_cannot_be_entered_leaves_nothing_open(
    calls: list[str], tmp_path: Path, monitor_fails: str, session_fails: str, last: list[str]
) -> None:
    windows = Windows()
    with (
        pytest.raises((RuntimeError, OSError)),
        observe(Watching(calls, fails=monitor_fails), Session(calls, fails=session_fails), tmp_path, windows),
    ):
        raise AssertionError("not entered")
    assert calls[-2:] == last
    with observe(Watching(calls), Session(calls), tmp_path, windows):
        pass


def test_a_window_inside_a_window_is_an_error_and_the_first_goes_on(calls: list[str], tmp_path: Path) -> None:
    windows = Windows()
    with observe(Watching(calls), Session(calls), tmp_path, windows) as first:
        with pytest.raises(MonitorError, match="a window is open already"):
            _enter(observe(Watching(calls), Session(calls), tmp_path, windows))
        first.run({})
    assert first.result == "result"


def _enter(window: Any) -> None:
    _raise_in(window, AssertionError("not entered"))


def _raise_in(window: Any, error: BaseException) -> None:
    with window:
        raise error


def test_a_monitor_of_another_ep_is_an_error_before_anything_is_opened(calls: list[str], tmp_path: Path) -> None:
    with pytest.raises(MonitorError, match="is for OpenVINOExecutionProvider, and the session is on QNN"):
        _enter(observe(Watching(calls, ep="OpenVINOExecutionProvider"), Session(calls), tmp_path))
    assert calls == ["monitor prepare", "monitor discard"]


@pytest.mark.parametrize("key", ["backend_path", "htp_performance_mode", "session.disable_cpu_ep_fallback"])
def test_a_monitor_says_nothing_to_an_ep_but_to_profile(calls: list[str], tmp_path: Path, key: str) -> None:
    for options in (MonitorOptions(provider_options={key: "1"}), MonitorOptions(session_entries={key: "1"})):
        with pytest.raises(MonitorError, match=f"wants to set {key}"):
            _enter(observe(Watching(calls, options=options), Session(calls), tmp_path))
    assert "session open" not in calls
