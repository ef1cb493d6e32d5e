"""A store as a whole: what is in it, what of it may go, and whether it is sound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from pytest_winml.records.store import Damage, EntrySummary, GcReport, GcStep, StoreListing, VerifyReport
from pytest_winml.store.entries import Entry, Flaw, check_content, read_entry
from pytest_winml.store.files import remove_tree, rename, storage_trouble, tree_bytes
from pytest_winml.store.locks import locked_if_free, remove_lock
from pytest_winml.store.uses import keys_in_use, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from pytest_winml.store.layout import Layout
    from pytest_winml.store.ownership import Owner

_IN_USE = "a running process uses it"


@dataclass(frozen=True, kw_only=True)
class Rules:
    older_than_s: float | None = None
    max_bytes: int | None = None
    keep: frozenset[str] = frozenset()


def entries(layout: Layout) -> Iterator[Entry]:
    for folder in _folders(layout):
        found = read_entry(folder)
        if isinstance(found, Entry):
            yield found


def listing(layout: Layout, now: float) -> StoreListing:
    found = tuple(entries(layout))
    used_by = _dependents(found)
    in_use = keys_in_use(layout)
    return StoreListing(
        root=str(layout.root),
        entries=tuple(
            EntrySummary(
                key=entry.key,
                stage=entry.record.ingredients.stage,
                model=entry.record.model,
                size_bytes=entry.size_bytes,
                created_at=entry.record.created_at,
                unused_s=max(0.0, now - entry.last_used_at),
                elapsed_s=entry.record.elapsed_s,
                inputs=entry.record.inputs,
                used_by=tuple(sorted(used_by[entry.key])),
                in_use=entry.key in in_use,
            )
            for entry in found
        ),
        unusable=tuple(flaw.damage(folder) for folder, flaw in _flawed(layout)),
        leftover_bytes=sum(tree_bytes(temporary.folder) for temporary in layout.temporaries()),
    )


def verify(layout: Layout) -> VerifyReport:
    checked: list[Entry] = []
    unusable: list[Damage] = []
    for folder in _folders(layout):
        found = read_entry(folder)
        flaw = check_content(found) if isinstance(found, Entry) else found
        if flaw and folder.exists():  # it may have been removed under our eyes
            unusable.append(flaw.damage(folder))
        elif isinstance(found, Entry) and not flaw:
            checked.append(found)
    return VerifyReport(
        root=str(layout.root),
        checked=len(checked),
        checked_bytes=sum(entry.size_bytes for entry in checked),
        damaged=tuple(damage for damage in unusable if damage.kind != "newer"),
        newer=tuple(damage for damage in unusable if damage.kind == "newer"),
    )


def collect(layout: Layout, owner: Owner, rules: Rules, *, now: float, dry_run: bool) -> GcReport:
    found = tuple(entries(layout))
    in_use = keys_in_use(layout)
    steps = [step for step in _broken(layout) if step.key not in in_use]
    steps += plan(found, rules, in_use=in_use, now=now)
    removed: list[GcStep] = []
    spared: list[GcStep] = []
    for step in steps:
        obstacle = None if dry_run else _remove(layout, step.key, owner)
        (spared if obstacle else removed).append(step if not obstacle else _because(step, obstacle))
    leftovers, leftover_bytes = sweep(layout, dry_run=dry_run)
    if not dry_run:
        _remove_idle_locks(layout)
    gone = {step.key for step in removed}
    kept = [entry for entry in found if entry.key not in gone]
    return GcReport(
        root=str(layout.root),
        dry_run=dry_run,
        removed=tuple(removed),
        spared=tuple(spared),
        leftovers=leftovers,
        leftover_bytes=leftover_bytes,
        kept=len(kept),
        kept_bytes=sum(entry.size_bytes for entry in kept),
    )


def plan(found: Iterable[Entry], rules: Rules, *, in_use: frozenset[str], now: float) -> list[GcStep]:
    """What has to go, in the order in which it goes.

    The key of an entry contains the digest of what it was made from, so an entry is found only through its inputs: they
    stay as long as it does. Hence an entry counts as used when the last one made from it was used, and of two that are
    equally old the one made from the other goes first.
    """
    by_key = {entry.key: entry for entry in found}
    dependents = {key: reachable(key, _dependents(by_key.values())) for key in by_key}
    inputs = {key: entry.record.inputs for key, entry in by_key.items()}
    sacred = {kept for key in rules.keep | in_use for kept in (key, *reachable(key, inputs))}
    last_used = {key: max(by_key[one].last_used_at for one in (key, *dependents[key])) for key in by_key}
    excess_bytes = sum(entry.size_bytes for entry in by_key.values()) - (rules.max_bytes or 0)
    steps = []
    for key in sorted(by_key.keys() - sacred, key=lambda key: (last_used[key], len(dependents[key]), key)):
        old = rules.older_than_s is not None and now - last_used[key] > rules.older_than_s
        if not old and (rules.max_bytes is None or excess_bytes <= 0):
            break
        steps.append(_step(by_key[key], "not used for long enough" if old else "least recently used"))
        excess_bytes -= by_key[key].size_bytes
    return steps


def reachable(start: str, graph: Mapping[str, Iterable[str]]) -> set[str]:
    """Without `start` itself, and only what is in the graph: an input may have been removed long ago."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = {key for key in graph.get(waiting.pop(), ()) if key in graph and key != start} - found
        found |= new
        waiting += new
    return found


def discard(layout: Layout, key: str, owner: Owner, *, wanted: Callable[[], bool] = lambda: False) -> bool:
    """Out of sight by one rename, and back by another if it turns out to be `wanted`. The caller has the lock."""
    folder = layout.entry(key)
    temporary = layout.new_temporary(key, owner)
    temporary.parent.mkdir(parents=True, exist_ok=True)
    rename(folder, temporary)
    if wanted():
        rename(temporary, folder)
        return False
    remove_tree(temporary)
    return True


def _remove(layout: Layout, key: str, owner: Owner) -> str | None:
    """What stood in the way, if anything did.

    A process that wants the entry says so before it looks for it: one that is not heard before the entry is out of
    sight, nor after, has not found it.
    """
    with locked_if_free(layout.lock(key)) as hold:
        if hold != "held":
            return "it is being built" if hold == "busy" else "the store cannot be written to"
        if key in keys_in_use(layout):
            return _IN_USE
        try:
            gone = discard(layout, key, owner, wanted=lambda: key in keys_in_use(layout))
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"it cannot be removed ({error.strerror or error})"
    return None if gone else _IN_USE


def _remove_idle_locks(layout: Layout) -> None:
    for path in layout.locks():
        if not layout.entry(path.stem).exists():
            remove_lock(path)


def _broken(layout: Layout) -> Iterator[GcStep]:
    for folder, flaw in _flawed(layout):
        if flaw.kind == "damaged":
            yield GcStep(key=folder.name, reason=f"damaged: {flaw.problem}", size_bytes=tree_bytes(folder))


def _flawed(layout: Layout) -> Iterator[tuple[Path, Flaw]]:
    for folder in _folders(layout):
        found = read_entry(folder)
        if isinstance(found, Flaw):
            yield folder, found


def _folders(layout: Layout) -> list[Path]:
    with storage_trouble(layout.root, "read"):
        return list(layout.entry_folders())


def _dependents(found: Iterable[Entry]) -> dict[str, list[str]]:
    found = tuple(found)
    users: dict[str, list[str]] = {entry.key: [] for entry in found}
    for entry in found:
        for key in entry.record.inputs:
            if key in users:
                users[key].append(entry.key)
    return users


def _step(entry: Entry, reason: str) -> GcStep:
    return GcStep(
        key=entry.key,
        reason=reason,
        size_bytes=entry.size_bytes,
        stage=entry.record.ingredients.stage,
        model=entry.record.model,
    )


def _because(step: GcStep, obstacle: str) -> GcStep:
    return msgspec.structs.replace(step, reason=obstacle)
