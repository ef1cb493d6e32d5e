"""The store of build results: every stage is built once, by whichever process comes first, and never half.

An entry is built in a temporary folder and takes its name by one rename. Whoever sees the name sees a whole entry; a
process that dies leaves a temporary folder, which a later one removes.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_winml.errors import BuildError, InfrastructureError
from pytest_winml.records.store import EntryRecord
from pytest_winml.store import collection
from pytest_winml.store.digests import canonical_digest, content_digest, stage_key
from pytest_winml.store.entries import (
    Entry,
    Flaw,
    check_content,
    check_sizes,
    fingerprint,
    read_entry,
    settle,
    write_record,
)
from pytest_winml.store.files import flush_folder, is_disk_full, remove_tree, rename, storage_trouble
from pytest_winml.store.layout import Layout, default_root
from pytest_winml.store.locks import locked, locked_if_free
from pytest_winml.store.ownership import this_process
from pytest_winml.store.uses import Uses, sweep
from pytest_winml.version import version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from pytest_winml.records.store import Damage, GcReport, StageIngredients, StoreListing, VerifyReport

    Make = Callable[[Path], object]

__all__ = ["ArtifactStore", "Built", "default_root", "stage_key"]

_ELSEWHERE = "choose another --winml-store, or update pytest-winml if a newer version wrote it."


@dataclass(frozen=True)
class Built:
    """`reused`: this call did not run the stage, an earlier one or another process did."""

    entry: Entry
    reused: bool


def _nobody_listens(_: object) -> None:
    pass


class ArtifactStore:
    """`on_damage` hears of entries that cannot be used, `on_wait` one sentence when another process is building."""

    def __init__(
        self,
        root: Path,
        *,
        on_damage: Callable[[Damage], None] = _nobody_listens,
        on_wait: Callable[[str], None] = _nobody_listens,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.root = root
        self._layout = Layout(root)
        self._on_damage = on_damage
        self._on_wait = on_wait
        self._now = now
        self._owner = this_process()
        self._uses = Uses(self._layout, self._owner)
        self._swept = False
        self._checked: dict[str, tuple[tuple[int, int], ...]] = {}

    def get(self, key: str, *, content: bool = True) -> Entry | None:
        """The entry, if it is whole; a damaged one is removed and reported, and is not there.

        Sizes are looked at each time, every byte the first time and whenever a file's time has changed. With
        `content=False` the bytes are left alone: enough for an entry of which only the record is wanted.
        """
        folder = self._layout.entry(key)
        with storage_trouble(folder, "read"):
            if not folder.exists():
                return None
        self._sweep_once()
        self._uses.add(key)  # first, so that whoever removes entries sees it in time
        found = self._find(key, content=content)
        if isinstance(found, Entry):
            self._touch(found)
            return found
        if isinstance(found, Flaw):
            self._discard_if_free(key, found, content=content)
        return None

    def build(self, ingredients: StageIngredients, make: Make, *, model: str, inputs: tuple[str, ...] = ()) -> Built:
        """The entry, built by `make` if nobody has built it: into the empty folder it is given, answering with plain
        data or a record. Other processes that want the same entry wait. `inputs` are the keys it is made from.
        """
        key = stage_key(ingredients)
        if found := self.get(key):
            return Built(found, reused=True)

        def waiting() -> None:
            self._on_wait(_waiting(self._layout, key, ingredients.stage, model))

        with locked(self._layout.lock(key), waiting):
            if found := self._found_under_lock(key):
                return Built(found, reused=True)
            return self._make(key, ingredients, make, model, inputs)

    def entries(self) -> Iterator[Entry]:
        """Every entry whose record can be read; their files are not looked at."""
        return collection.entries(self._layout)

    def listing(self) -> StoreListing:
        return collection.listing(self._layout, self._now())

    def gc(
        self,
        *,
        older_than_s: float | None = None,
        max_bytes: int | None = None,
        keep: AbstractSet[str] = frozenset(),
        dry_run: bool = False,
    ) -> GcReport:
        """Removes what was not used for so long, then what was used least recently until the rest fits, and always what
        dead processes left. An entry in use or in `keep` stays, with all that it was made from.
        """
        rules = collection.Rules(older_than_s=older_than_s, max_bytes=max_bytes, keep=frozenset(keep))
        return collection.collect(self._layout, self._owner, rules, now=self._now(), dry_run=dry_run)

    def verify(self) -> VerifyReport:
        """Reads every byte of every entry and changes nothing: what is damaged is rebuilt when it is next asked for."""
        return collection.verify(self._layout)

    def _find(self, key: str, *, content: bool) -> Entry | Flaw | None:
        found = read_entry(self._layout.entry(key))
        if not isinstance(found, Entry):
            return found
        state = fingerprint(found)
        unread = content and (state is None or self._checked.get(key) != state)
        if flaw := check_content(found) if unread else check_sizes(found):
            return flaw
        if unread and state:
            self._checked[key] = state
        return found

    def _found_under_lock(self, key: str) -> Entry | None:
        """What another process has built meanwhile; anything else in its place is cleared away."""
        self._uses.add(key)
        found = self._find(key, content=True)
        if isinstance(found, Entry):
            self._touch(found)
        if not isinstance(found, Flaw):
            return found
        folder = self._layout.entry(key)
        if found.kind != "damaged":
            raise InfrastructureError(f"the store's entry {folder} cannot be used: {found.problem}", remedy=_ELSEWHERE)
        with storage_trouble(folder, "replaced"):
            self._discard(key)
        self._on_damage(found.damage(folder, removed=True))
        return None

    def _discard_if_free(self, key: str, flaw: Flaw, *, content: bool) -> None:
        """Looks again under the lock: another process may have put a whole entry there in the meantime."""
        folder = self._layout.entry(key)
        if flaw.kind != "damaged":
            self._on_damage(flaw.damage(folder))
            return
        with locked_if_free(self._layout.lock(key)) as hold:
            if hold == "busy":
                return  # somebody is building or removing it, and what is wrong may be that
            found = self._find(key, content=content)
            if not isinstance(found, Flaw):
                return
            removed = False
            if hold == "held":
                with contextlib.suppress(OSError):
                    self._discard(key)
                    removed = True
        self._on_damage(found.damage(folder, removed=removed))

    def _discard(self, key: str) -> None:
        """Out of sight by one rename. The caller has the lock."""
        self._checked.pop(key, None)
        collection.discard(self._layout, key, self._owner)

    def _make(self, key: str, ingredients: StageIngredients, make: Make, model: str, inputs: tuple[str, ...]) -> Built:
        self._clear_leftovers(key)
        folder = self._layout.new_temporary(key, self._owner)
        try:
            with storage_trouble(folder, "made"):
                folder.mkdir(parents=True)
                self._layout.mark_as_cache()
            started = time.perf_counter()
            answer = _answer(ingredients.stage, make, folder)
            elapsed_s = time.perf_counter() - started
            with storage_trouble(folder, "written"):
                files = settle(folder, ingredients.stage)
                record = EntryRecord(
                    key=key,
                    model=model.encode("utf-8", "replace").decode("utf-8"),
                    ingredients=ingredients,
                    inputs=inputs,
                    answer=answer,
                    files=files,
                    content_digest=content_digest(files),
                    created_at=dt.datetime.fromtimestamp(self._now(), dt.UTC).isoformat("T", "seconds"),
                    elapsed_s=elapsed_s,
                    plugin_version=version(),
                )
                write_record(folder, record)
            return self._publish(folder, key)
        finally:
            remove_tree(folder)  # it is not there any more when it was published

    def _clear_leftovers(self, key: str) -> None:
        with storage_trouble(self._layout.temporaries_folder, "read"):
            sweep(self._layout)
            for leftover in self._layout.temporaries(key):
                # Whoever made it had the lock that this process has now; locks may not reach another machine.
                if leftover.owner.life() != "unknown":
                    remove_tree(leftover.folder)

    def _publish(self, folder: Path, key: str) -> Built:
        target = self._layout.entry(key)
        with storage_trouble(target, "written"):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                rename(folder, target)
                flush_folder(target.parent)
            except OSError:
                if not target.exists():
                    raise
        # On a drive where locks do not reach another machine, that one may have been first.
        reused = folder.exists()
        entry = self._find(key, content=reused)
        if not isinstance(entry, Entry):
            problem = entry.problem if entry else "it is gone"
            raise InfrastructureError(f"the store's entry {target} cannot be used: {problem}", remedy=_ELSEWHERE)
        if state := fingerprint(entry):
            self._checked[key] = state
        self._touch(entry)
        return Built(entry, reused=reused)

    def _touch(self, entry: Entry) -> None:
        now = self._now()
        with contextlib.suppress(OSError):  # a store that is read-only serves all the same
            os.utime(entry.folder, (now, now))

    def _sweep_once(self) -> None:
        if not self._swept:
            self._swept = True
            with contextlib.suppress(OSError):
                sweep(self._layout)


def _answer(stage: str, make: Make, folder: Path) -> dict[str, Any]:
    """What `make` answers, as plain data. A full disk is no verdict about the model, whoever hits it."""
    try:
        made = make(folder)
    except OSError as error:
        if not is_disk_full(error):
            raise
        with storage_trouble(folder, "written"):
            raise
    try:
        answer = {} if made is None else msgspec.to_builtins(made)
        canonical_digest(answer)
        if isinstance(answer, dict):
            return answer
        problem = "it is not a table of names and values"
    except (TypeError, ValueError) as error:
        problem = str(error)
    raise BuildError(f"the answer of stage {stage!r} cannot be written as JSON: {problem}")


def _waiting(layout: Layout, key: str, stage: str, model: str) -> str:
    pids = sorted({temporary.owner.pid for temporary in layout.temporaries(key)})
    who = f"process {pids[0]}" if len(pids) == 1 else "another process"
    return f"waiting for {who}, which is building {stage} of {model}"
