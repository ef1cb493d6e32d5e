"""Baselines by name, case and machine. What is saved is never changed: a newer one is one more file.

    main/detector-qnn-npu-1a2b3c4d.0badcafe.20260131T120000000000Z.5e6f7a8b.json

The folder is the baseline's name, so that it can be removed by hand; the file's name is case, machine identity, time
and chance, so that two machines, branches or processes that save the same case never write the same file. What counts
is what a file says; its name only tells where to look first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from pytest_winml.errors import InfrastructureError
from pytest_winml.measure.baseline_files import FileName, case_slug, decode, encode, file_name, folder_of
from pytest_winml.measure.baseline_places import MOST_BYTES, place_at
from pytest_winml.records.identity import comparable, differences, ignorable, unknown_to_both

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pytest_winml.records.baseline import Baseline
    from pytest_winml.records.identity import FieldDifference, MachineIdentity

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`differences` forbid nothing: they are ignored, context or noise. `unknown` is what neither machine tells."""

    baseline: Baseline
    differences: tuple[FieldDifference, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoBaseline:
    """Nothing was saved for this case under this name, or nothing that can be read: the notes tell."""

    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotComparable:
    """Saved on other machines only. `nearest` differs in the fewest identity fields, those of `differences`."""

    nearest: Baseline
    differences: tuple[FieldDifference, ...]
    notes: tuple[str, ...] = ()


Lookup = Found | NoBaseline | NotComparable


class BaselineStore:
    """In a folder, or at a URL that fsspec knows. `new_name` is asked for a file name until one is free."""

    def __init__(self, location: str | Path, *, new_name: Callable[[Baseline], str] = file_name) -> None:
        self._place = place_at(location)
        self._new_name = new_name

    def __str__(self) -> str:
        return str(self._place)

    def save(self, baseline: Baseline) -> str:
        """One more file; its path below the store."""
        folder, content = folder_of(baseline.name), encode(baseline)
        for _ in range(_ATTEMPTS):
            name = self._new_name(baseline)
            try:
                self._place.create(folder, name, content)
            except FileExistsError:
                continue
            return f"{folder}/{name}"
        raise InfrastructureError(f"no free file name for a baseline of {baseline.case_id} in {self}")

    def find(self, name: str, case_id: str) -> tuple[Baseline, ...]:
        """All that can be read, newest first."""
        shelf = _Shelf(self, name, case_id)
        return tuple(sorted(shelf.read(shelf.files), key=lambda one: one.created, reverse=True))

    def lookup(self, name: str, case_id: str, identity: MachineIdentity, ignore: Iterable[str] = ()) -> Lookup:
        """The newest of this very identity; else the newest that differs in nothing but what is ignored."""
        ignored = ignorable(ignore)
        shelf = _Shelf(self, name, case_id)
        same = [file for file in shelf.files if file.identity == identity.digest]
        for baseline in shelf.read(same):
            if comparable(differences(baseline.machine, identity)):
                return _found(baseline, identity, ignored, shelf.notes)
        others = sorted(shelf.newest_of_each_identity(), key=lambda one: one.created, reverse=True)
        if not others:
            return NoBaseline(notes=shelf.notes)
        for baseline in others:
            if comparable(differences(baseline.machine, identity, ignored)):
                return _found(baseline, identity, ignored, shelf.notes)
        nearest = min(others, key=lambda one: len(_forbidding(one, identity, ignored)))
        return NotComparable(nearest=nearest, differences=_forbidding(nearest, identity, ignored), notes=shelf.notes)

    def names(self, folder: str) -> list[str]:
        return self._place.names(folder)

    def load(self, folder: str, name: str) -> Baseline | str:
        """The baseline in a file, or why there is none."""
        try:
            content = self._place.read(folder, name)
        except OSError as error:
            return f"it cannot be read ({error.strerror or error})"
        return "it is too large for a baseline" if len(content) > MOST_BYTES else decode(content)


class _Shelf:
    """The files of one name and case, newest first by their names, and what is wrong with those that were opened."""

    def __init__(self, store: BaselineStore, name: str, case_id: str) -> None:
        self._store = store
        self._wanted = (name, case_id)
        self._folder = folder_of(name)
        self._notes: dict[str, str] = {}
        self.files = self._sorted_files(case_slug(case_id))

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"{self._folder}/{name} is left out: {why}" for name, why in sorted(self._notes.items()))

    def read(self, files: Iterable[FileName]) -> Iterator[Baseline]:
        for file in files:
            found = self._store.load(self._folder, file.text)
            if isinstance(found, str):
                self._notes[file.text] = found
            elif (found.name, found.case_id) == self._wanted:
                yield found

    def newest_of_each_identity(self) -> Iterator[Baseline]:
        """One file for each machine is opened, not one for each night."""
        by_identity = sorted(self.files, key=lambda file: file.identity)  # stable: newest first in each
        for _, files in groupby(by_identity, key=lambda file: file.identity):
            newest = next(self.read(files), None)
            if newest is not None:
                yield newest

    def _sorted_files(self, case: str) -> list[FileName]:
        files = []
        for name in self._store.names(self._folder):
            file = FileName.parse(name)
            if file is None and not name.startswith("."):  # hidden: git's, or a save under way
                self._notes[name] = "its name is not a baseline's"
            if file is not None and file.case == case:
                files.append(file)
        return sorted(files, key=lambda file: (file.when, file.text), reverse=True)


def _found(baseline: Baseline, identity: MachineIdentity, ignored: Iterable[str], notes: tuple[str, ...]) -> Found:
    return Found(
        baseline=baseline,
        differences=differences(baseline.machine, identity, ignored),
        unknown=unknown_to_both(baseline.machine, identity),
        notes=notes,
    )


def _forbidding(baseline: Baseline, identity: MachineIdentity, ignored: Iterable[str]) -> tuple[FieldDifference, ...]:
    found = differences(baseline.machine, identity, ignored)
    return tuple(difference for difference in found if difference.forbids_comparing)
