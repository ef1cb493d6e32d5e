"""From pytest's three phase reports of an item to its one entry in the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pytest_winml.errors import WinmlError
from pytest_winml.execute.redaction import redact
from pytest_winml.records.report import Failure, ItemFinished, Outcome
from pytest_winml.report.notes import EMULATED_NOTE, idle_notes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    import pytest

    from pytest_winml.execute.redaction import Places
    from pytest_winml.latency import WinmlLatency
    from pytest_winml.records.build import BuildOutcome
    from pytest_winml.records.trace import OpTrace
    from pytest_winml.runner.case import CaseRunner

_LONGEST_MESSAGE = 4000
_NOT_THE_USERS = ("_pytest.", "pluggy.", "contextlib")
# What stands there are names of nodes, which begin with a slash as paths do, or numbers by the thousand.
_NO_PATHS = frozenset({"placement", "overrides", "times_ns"})


def finished_item(
    nodeid: str,
    runner: CaseRunner,
    phases: list[pytest.TestReport],
    error: BaseException | None,
    *,
    build: BuildOutcome | None = None,
    timed: WinmlLatency | None = None,
    traces: Sequence[OpTrace] = (),
    remarks: Sequence[str] = (),
) -> ItemFinished:
    """`timed` is what a timed test held, `build` what a build-only run has instead of a test.

    `remarks` are what befell the store meanwhile.
    """
    outcome, decisive = _decide(phases)
    failed = outcome in ("failed", "error")
    artifact = runner.built
    return ItemFinished(
        nodeid=nodeid.encode("utf-8", "backslashreplace").decode(),  # JSON has no lone surrogates
        case=runner.case.ref,
        outcome=outcome,
        duration_s=sum(phase.duration for phase in phases),
        availability=runner.availability,
        artifact=artifact.provenance if artifact else None,
        artifact_key=artifact.key if artifact else None,
        placement=runner.placed,
        build=build,
        measured=timed.measured if timed else None,
        comparisons=timed.comparisons if timed else (),
        gates=timed.gates if timed else (),
        traces=tuple(traces),
        skip_reason=redact(reason_of(decisive)) if outcome == "skipped" else None,
        failure=_failure(decisive, error) if failed else None,
        notes=(*_notes(runner, build), *(timed.notes if timed else ()), *remarks),
    )


def encoded(entry: ItemFinished, places: Places) -> str:
    """The entry as the journal keeps it: whatever it tells, it does not tell where folders of this machine are."""
    return msgspec.json.encode(places.hide_in(msgspec.to_builtins(entry), but=_NO_PATHS)).decode()


def _decide(phases: list[pytest.TestReport]) -> tuple[Outcome, pytest.TestReport]:
    """The outcome of the whole item, and the phase that decided it."""
    for phase in phases:
        if phase.failed:
            return ("failed" if phase.when == "call" else "error"), phase
        if phase.skipped:
            return ("xfailed" if hasattr(phase, "wasxfail") else "skipped"), phase
        if phase.when == "call" and hasattr(phase, "wasxfail"):
            return "xpassed", phase
    return "passed", phases[-1]


def reason_of(report: pytest.TestReport) -> str:
    """Why a test was skipped, in its own words."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr)


def _failure(report: pytest.TestReport, error: BaseException | None) -> Failure:
    if isinstance(error, WinmlError):
        tail = redact(error.log_tail) if error.log_tail else None
        return Failure(error=type(error).__name__, message=redact(error.message), log_tail=tail)
    if error is None or isinstance(report.longrepr, str):
        return Failure(error="RequiredTargetSkipped", message=redact(str(report.longrepr)))
    return Failure(error=type(error).__name__, message=redact(str(error))[:_LONGEST_MESSAGE])


def _notes(runner: CaseRunner, build: BuildOutcome | None) -> tuple[str, ...]:
    target = runner.case.target
    runs = runner.built.provenance.runs if runner.built else build.stages if build else ()
    notes = []
    if runner.availability and runner.availability.mode == "emulated":
        notes.append(f"{EMULATED_NOTE}placement and arithmetic are the NPU's, time is not")
    if target.unchecked_options:
        notes.append(f"options passed unchecked: {', '.join(sorted(target.unchecked_options))}")
    return (*notes, *idle_notes(runner.case.recipe, runs))


def hide_our_frames(error: BaseException) -> bool:
    """Ends the traceback of an error of ours at the user's own line; `--full-trace` shows the rest.

    False where no line of the user's is in it, as when a fixture of ours fails: then the message alone says something.
    """
    if not isinstance(error, WinmlError):
        return True
    frames = []
    frame = error.__traceback__
    while frame is not None:
        frames.append(frame)
        frame = frame.tb_next
    first = next((place for place, one in enumerate(frames) if _module(one).startswith("pytest_winml.")), None)
    while first and _module(frames[first - 1]) == "contextlib":  # a `with` of the user's goes through it
        first -= 1
    if first:
        frames[first - 1].tb_next = None
        error.__cause__ = None
        error.__suppress_context__ = True
    return any(not _module(frame).startswith(_NOT_THE_USERS) for frame in frames[:first])


def message_only(excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
    """What pytest shows of an error that no line of the user's led to: its class and what it says."""
    shown = excinfo.getrepr(style="value", chain=False)
    for entry in shown.reprtraceback.reprentries:
        entry.lines = f"{excinfo.typename}: {excinfo.value}".splitlines()  # the style leaves the class out
    return shown


def _module(frame: TracebackType) -> str:
    return str(frame.tb_frame.f_globals.get("__name__", ""))
