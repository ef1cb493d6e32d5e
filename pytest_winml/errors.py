"""Every error of the package, in one tree.

WinmlError
├── UsageProblem            what the user wrote (marker, option, target, recipe) cannot be meant
├── ModelError              the model file or function does not give a usable model
├── BuildError              a stage could not make the artifact
├── ProviderUnavailable     the target cannot be used here
│   ├── TargetAbsent        its device or package is not on this machine: tests skip
│   └── TargetBroken        it is there and does not register, open or take the graph: tests fail
├── SessionError            a session was refused or failed
│   ├── NotOnTarget         the session opened, but nothing of the graph is on the target
│   └── RunFailed           the runtime refused or failed one inference
├── MeasurementError        something could not be timed, or not judged
│   ├── InvalidSamples      times that no clock gives: none at all, zero, negative, not a number
│   └── GateFailed          the measurement stands, and is worse than the gate allows
├── MonitorError            a monitor could not be attached, or did not come to a result
│   └── TraceFailed         the trace was asked for and has nothing to show; its status says why
├── WorkerError             the process that holds native code did not answer properly
│   ├── WorkerCrashed       it died; the exit status is decoded
│   ├── WorkerTimedOut      it did not answer in time and was killed with its children
│   ├── WorkerFlooded       it wrote more log than a log can be
│   └── WorkerGarbled       it answered something that is not the protocol
└── InfrastructureError     disk, permission, network: no verdict about a model
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class WinmlError(Exception):
    """`message` says what happened and to what, `remedy` what to do next, `log_tail` what native code printed.

    `stage` is the build stage an error came out of, where there was one.
    """

    stage: str | None = None

    def __init__(self, message: str, *, remedy: str | None = None, log_tail: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.log_tail = log_tail

    def __str__(self) -> str:
        parts = [self.message]
        if self.remedy:
            parts.append(f"To do: {self.remedy}")
        if self.log_tail:
            parts.append("Last lines of the log:\n" + "\n".join(f"  | {line}" for line in self.log_tail.splitlines()))
        return "\n".join(parts)


class UsageProblem(WinmlError):
    pass


class ModelError(WinmlError):
    pass


class BuildError(WinmlError):
    pass


class ProviderUnavailable(WinmlError):
    pass


class TargetAbsent(ProviderUnavailable):
    pass


class TargetBroken(ProviderUnavailable):
    pass


class SessionError(WinmlError):
    pass


class NotOnTarget(SessionError):
    pass


class RunFailed(SessionError):
    pass


class MeasurementError(WinmlError):
    pass


class InvalidSamples(MeasurementError):
    pass


class GateFailed(MeasurementError):
    pass


class MonitorError(WinmlError):
    pass


class TraceFailed(MonitorError):
    pass


class WorkerError(WinmlError):
    pass


class WorkerCrashed(WorkerError):
    pass


class WorkerTimedOut(WorkerError):
    pass


class WorkerFlooded(WorkerError):
    pass


class WorkerGarbled(WorkerError):
    pass


class InfrastructureError(WinmlError):
    pass


def error_class(name: str) -> type[WinmlError]:
    """The class an error had in another process; the root of the tree for a name this version does not know."""
    found = globals().get(name)
    return found if isinstance(found, type) and issubclass(found, WinmlError) else WinmlError


def unknown_name(kind: str, given: str, known: Iterable[str]) -> UsageProblem:
    """The error for a name nobody has, with the nearest one that exists."""
    names = {name.lower(): name for name in sorted(known)}
    near = get_close_matches(given.lower(), names, n=1)
    listed = f"known: {', '.join(names.values())}." if names else "none is known here."
    hint = f"did you mean {names[near[0]]!r}?" if near else listed
    return UsageProblem(f"unknown {kind} {given!r}", remedy=hint)
