"""The store as lines a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.report.table import table_lines, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_winml.records.store import Damage, EntrySummary, GcReport, GcStep, StoreListing, VerifyReport

_SHORT_KEY = 12
_AGES = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def listing_lines(listing: StoreListing, width: int) -> list[str]:
    """Below each entry, indented, those that were made from it."""
    if not listing.entries and not listing.unusable:
        return [f"{listing.root} holds nothing."]
    lines = []
    if listing.entries:
        header = ("entry", "stage", "model", "size", "took", "last used", "used by")
        lines += [*table_lines(header, [_row(entry, depth) for entry, depth in _forest(listing)], width), ""]
    lines += _damage_lines(listing.unusable, width)
    total = f"{_entries(len(listing.entries))}, {units.byte_size(listing.size_bytes)} in {listing.root}"
    lines += wrap(total, width)
    if listing.leftover_bytes:
        lines += wrap(
            f"{units.byte_size(listing.leftover_bytes)} in unfinished builds; `pytest-winml cache gc` removes those "
            "whose process is gone.",
            width,
        )
    return lines


def gc_lines(report: GcReport, width: int) -> list[str]:
    lines = []
    for word, steps in (("would go" if report.dry_run else "removed", report.removed), ("spared", report.spared)):
        if steps:
            lines += [*table_lines((word, "stage", "model", "size", "why"), _steps(steps), width), ""]
    verb = "would remove" if report.dry_run else "removed"
    what = _entries(len(report.removed))
    if report.leftovers:
        what += f" and {units.count(report.leftovers, 'unfinished build')}"
    lines += wrap(f"{verb} {what}, {units.byte_size(report.freed_bytes)}", width)
    lines += wrap(f"{_entries(report.kept)}, {units.byte_size(report.kept_bytes)} stay in {report.root}", width)
    return lines


def verify_lines(report: VerifyReport, width: int) -> list[str]:
    lines = _damage_lines((*report.damaged, *report.newer), width)
    sound = f"{_entries(report.checked)}, {units.byte_size(report.checked_bytes)} in {report.root}"
    lines += wrap(f"sound: {sound}", width)
    if report.damaged:
        lines += wrap(f"damaged: {_entries(len(report.damaged))}; each is built again when it is next needed.", width)
    return lines


def damage_sentence(damage: Damage) -> str:
    """For a run that comes across it."""
    after = "; it is built again" if damage.removed else "; it is left alone"
    return f"the store's entry {damage.folder} cannot be used: {damage.problem}{after}"


def _forest(listing: StoreListing) -> Iterator[tuple[EntrySummary, int]]:
    """Entries by model, each below the first of its inputs that is still there. What lies in a circle comes last."""
    by_key = {entry.key: entry for entry in listing.entries}
    shown: set[str] = set()

    def below(entry: EntrySummary, depth: int) -> Iterator[tuple[EntrySummary, int]]:
        if entry.key in shown:
            return
        shown.add(entry.key)
        yield entry, depth
        for user in _sorted(by_key[key] for key in entry.used_by):
            yield from below(user, depth + 1)

    for root in _sorted(entry for entry in listing.entries if not any(key in by_key for key in entry.inputs)):
        yield from below(root, 0)
    yield from ((entry, 0) for entry in _sorted(listing.entries) if entry.key not in shown)


def _sorted(entries: Iterable[EntrySummary]) -> list[EntrySummary]:
    return sorted(entries, key=lambda entry: (entry.model, entry.created_at, entry.stage, entry.key))


def _row(entry: EntrySummary, depth: int) -> tuple[str, ...]:
    users = units.count(len(entry.used_by), "entry", "entries") if entry.used_by else "-"
    return (
        entry.key[:_SHORT_KEY],
        "  " * depth + entry.stage,
        entry.model,
        units.byte_size(entry.size_bytes),
        units.seconds(entry.elapsed_s),
        "in use" if entry.in_use else _ago(entry.unused_s),
        users,
    )


def _steps(steps: Iterable[GcStep]) -> list[tuple[str, ...]]:
    return [
        (
            step.key[:_SHORT_KEY],
            step.stage or "unknown",
            step.model or "unknown",
            units.byte_size(step.size_bytes),
            step.reason,
        )
        for step in steps
    ]


def _damage_lines(damages: Iterable[Damage], width: int) -> list[str]:
    """A folder stays in one piece, however long: it is there to be copied."""
    lines = []
    for damage in damages:
        lines += [
            *wrap(f"{damage.kind.upper()} {damage.key[:_SHORT_KEY]}: {damage.problem}", width),
            f"  {damage.folder}",
        ]
    return lines


def _ago(age_s: float) -> str:
    for step_s, name in _AGES:
        if age_s >= step_s:
            return f"{units.count(int(age_s // step_s), name)} ago"
    return "just now"


def _entries(number: int) -> str:
    return units.count(number, "entry", "entries")
