"""Several monitors in one window: they are prepared in order, and end in the reverse of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pytest_winml.errors import MonitorError
from pytest_winml.records.trace import HardwareUse, OpTrace
from pytest_winml.session.monitoring import MonitorOptions, Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_winml.session.monitoring import Monitor

T = TypeVar("T")
_READ = ("ok", "basic_fallback", "cpu_fallback")


class Monitors:
    """The result is the primary's, with the hardware's use, and with the operators of EPs it tells nothing of."""

    def __init__(self, primary: Monitor, *others: Monitor) -> None:
        self._members = (primary, *others)
        self._prepared: list[Monitor] = []
        eps = {member.ep for member in self._members} - {None}
        if len(eps) > 1:
            raise MonitorError(
                f"one window is of one EP, and these monitors are for {', '.join(sorted(map(str, eps)))}"
            )
        self.ep: str | None = next(iter(eps), None)
        self.needs_release = any(member.needs_release for member in self._members)

    def prepare(self, folder: Path) -> MonitorOptions:
        merged = MonitorOptions()
        self._prepared = []
        try:
            for member in self._members:
                options = member.prepare(folder)
                self._prepared.append(member)
                merged = _merge(merged, options, type(member).__name__)
        except BaseException:
            self.discard()
            raise
        return merged

    def begin(self, window: Window) -> None:
        begun: list[Monitor] = []
        try:
            for member in self._members:
                member.begin(window)
                begun.append(member)
        except BaseException as error:
            _each(reversed(begun), lambda member: member.end(), error)
            raise

    def end(self) -> None:
        _each(reversed(self._members), lambda member: member.end())

    def collect(self, window: Window) -> Any:
        first, *others = _each(self._members, lambda member: member.collect(window))
        for other in others:
            first = _join(first, other)
        return first

    def discard(self) -> None:
        prepared, self._prepared = self._prepared, []
        _each(reversed(prepared), lambda member: member.discard())


def _each(members: Any, act: Callable[[Monitor], T], before: BaseException | None = None) -> list[T]:
    """All of them, whatever one does; the first error is raised, unless one came `before`, and carries the others."""
    results, errors = [], [before] if before else []
    for member in members:
        try:
            results.append(act(member))
        except Exception as error:  # noqa: BLE001 - raised below, after the others had their turn
            errors.append(error)
    if errors:
        for later in errors[1:]:
            errors[0].add_note(f"then another monitor of the window: {later!r}")
        if before is None:
            raise errors[0]
    return results


def _merge(one: MonitorOptions, two: MonitorOptions, who: str) -> MonitorOptions:
    return MonitorOptions(
        provider_options=_merged(one.provider_options, two.provider_options, who),
        session_entries=_merged(one.session_entries, two.session_entries, who),
        profile_prefix=_only(one.profile_prefix, two.profile_prefix, "ORT's profile", who),
        watched=(*one.watched, *(path for path in two.watched if path not in one.watched)),
        working_directory=_only(one.working_directory, two.working_directory, "a working directory", who),
    )


def _merged(one: dict[str, str], two: dict[str, str], who: str) -> dict[str, str]:
    if both := sorted(one.keys() & two.keys()):
        raise MonitorError(f"{who} wants the option {both[0]}, and so does another monitor of the window")
    return {**one, **two}


def _only(one: str | None, two: str | None, what: str, who: str) -> str | None:
    if one is not None and two is not None:
        raise MonitorError(f"{who} wants {what}, and so does another monitor of the window")
    return one if one is not None else two


def _join(first: Any, other: Any) -> Any:
    if not isinstance(first, OpTrace):
        return first
    if isinstance(other, HardwareUse):
        return msgspec.structs.replace(first, hardware=other)
    if isinstance(other, OpTrace):
        return _with_operators(first, other)
    return first


def _with_operators(first: OpTrace, other: OpTrace) -> OpTrace:
    """Shares are of one meaning, so those of an EP that is new here stay right."""
    if other.status not in _READ:
        note = f"{other.metadata.backend}: {other.status}: {other.error}"
        return msgspec.structs.replace(first, notes=(*first.notes, note))
    known = {operator.ep for operator in first.operators}
    added = tuple(operator for operator in other.operators if operator.ep not in known)
    return msgspec.structs.replace(
        first,
        operators=(*first.operators, *added),
        statistics={**{one.name: other.statistics[one.name] for one in added}, **first.statistics},
        artifacts={**other.artifacts, **first.artifacts},
        notes=(*first.notes, *other.notes),
    )
