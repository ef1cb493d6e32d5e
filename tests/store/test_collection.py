"""What goes and what stays when a store is thinned out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.store.artifacts import ArtifactStore
from pytest_winml.store.entries import Flaw
from pytest_winml.store.layout import Layout
from pytest_winml.store.locks import locked_if_free
from pytest_winml.store.ownership import Owner, this_process
from tests.execute.processes import wait_until
from tests.store.stages import WEIGHTS, built, finish, ingredients, key_of, start, temporaries, writes

if TYPE_CHECKING:
    import pytest

    from pytest_winml.store.entries import Entry

SIZE = len(WEIGHTS)
DAY = 86_400.0
CHAIN = ("export", "optimize", "quantize", "compile")


def unused(root: Path) -> ArtifactStore:
    """As a later process sees the store: nobody who built is there any more."""
    shutil.rmtree(root / "uses", ignore_errors=True)
    return ArtifactStore(root, now=lambda: 100 * DAY)


def add(root: Path, stage: str, day: float, inputs: tuple[str, ...] = ()) -> str:
    return built(ArtifactStore(root, now=lambda: day * DAY), stage, inputs=inputs).entry.key


def chain(root: Path, day: float = 1, **days: float) -> dict[str, str]:
    keys: dict[str, str] = {}
    for stage in CHAIN:
        keys[stage] = add(root, stage, days.get(stage, day), tuple(keys.values())[-1:])
    return keys


def keys_in(store: ArtifactStore) -> set[str]:
    return {entry.key for entry in store.entries()}


def test_what_was_not_used_for_long_goes(tmp_path: Path) -> None:
    old, recent = add(tmp_path, "export", 60), add(tmp_path, "optimize", 80)
    report = unused(tmp_path).gc(older_than_s=30 * DAY)
    assert keys_in(unused(tmp_path)) == {recent}
    assert [(step.key, step.stage, step.model, step.size_bytes) for step in report.removed] == [
        (old, "export", "digits", SIZE)
    ]
    assert (report.kept, report.kept_bytes, report.freed_bytes) == (1, SIZE, SIZE)
    assert temporaries(tmp_path) == []


def test_using_an_old_entry_keeps_it(tmp_path: Path) -> None:
    key = add(tmp_path, "export", 60)
    assert ArtifactStore(tmp_path, now=lambda: 90 * DAY).get(key) is not None
    assert unused(tmp_path).gc(older_than_s=30 * DAY).removed == ()


def test_the_least_recently_used_go_first_and_only_until_the_rest_fits(tmp_path: Path) -> None:
    keys = [add(tmp_path, stage, day) for stage, day in (("b", 20), ("a", 10), ("d", 40), ("c", 30))]
    report = unused(tmp_path).gc(max_bytes=2 * SIZE)
    assert [step.key for step in report.removed] == [keys[1], keys[0]]
    assert keys_in(unused(tmp_path)) == {keys[2], keys[3]}
    assert unused(tmp_path).gc(max_bytes=2 * SIZE).removed == ()


def test_a_dry_run_tells_the_same_and_removes_nothing(tmp_path: Path) -> None:
    chain(tmp_path)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if "uses" not in path.parts)
    promised = unused(tmp_path).gc(max_bytes=SIZE, dry_run=True)
    assert promised.dry_run
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if "uses" not in path.parts) == before
    done = unused(tmp_path).gc(max_bytes=SIZE)
    assert len(done.removed) == 3
    assert (promised.removed, promised.kept, promised.kept_bytes) == (done.removed, done.kept, done.kept_bytes)


def test_without_rules_nothing_that_is_whole_goes(tmp_path: Path) -> None:
    chain(tmp_path)
    assert unused(tmp_path).gc().removed == ()


def test_what_an_entry_was_made_from_stays_as_long_as_it(tmp_path: Path) -> None:
    """Without its inputs an entry cannot be found: its key holds their digest."""
    keys = chain(tmp_path, export=1, optimize=2, quantize=3, compile=90)
    assert unused(tmp_path).gc(older_than_s=30 * DAY).removed == ()
    report = unused(tmp_path).gc(max_bytes=2 * SIZE)
    assert [step.key for step in report.removed] == [keys["compile"], keys["quantize"]]


def test_of_equal_age_what_was_made_last_goes_first(tmp_path: Path) -> None:
    keys = chain(tmp_path)
    report = unused(tmp_path).gc(older_than_s=0)
    assert [step.key for step in report.removed] == [keys[stage] for stage in reversed(CHAIN)]


def test_what_is_to_be_kept_stays_with_its_chain(tmp_path: Path) -> None:
    keys = chain(tmp_path)
    other = add(tmp_path, "other", 1, (keys["export"],))
    report = unused(tmp_path).gc(max_bytes=0, older_than_s=0, keep={keys["quantize"]})
    assert {step.key for step in report.removed} == {keys["compile"], other}


def use_and_wait(root: Path, key: str, flag: Path) -> None:
    assert ArtifactStore(root).get(key) is not None
    flag.touch()
    while flag.exists():
        os.stat(root)  # noqa: PTH116 - anything that takes a moment


def test_what_a_live_process_uses_stays_with_its_chain(tmp_path: Path) -> None:
    root, flag = tmp_path / "store", tmp_path / "flag"
    keys = chain(root)
    shutil.rmtree(root / "uses")
    other = start(use_and_wait, root, keys["optimize"], flag)
    wait_until(flag.exists, limit_s=60)
    report = ArtifactStore(root).gc(max_bytes=0)
    assert {step.key for step in report.removed} == {keys["compile"], keys["quantize"]}
    assert {entry.key: entry.in_use for entry in ArtifactStore(root).listing().entries} == {
        keys["export"]: False,
        keys["optimize"]: True,
    }
    flag.unlink()
    finish([other])
    assert len(ArtifactStore(root).gc(max_bytes=0).removed) == 2


def test_what_this_process_has_in_hand_stays(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    built(store)
    assert store.gc(max_bytes=0).removed == ()


def test_an_entry_that_somebody_asks_for_in_the_last_moment_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = add(tmp_path, "export", 1)
    answers = [frozenset[str](), frozenset[str](), frozenset({key})]
    monkeypatch.setattr("pytest_winml.store.collection.keys_in_use", lambda _: answers.pop(0))
    report = unused(tmp_path).gc(max_bytes=0)
    assert report.removed == ()
    assert [(step.key, step.reason) for step in report.spared] == [(key, "a running process uses it")]
    assert ArtifactStore(tmp_path).get(key) is not None


def test_an_entry_that_is_locked_is_spared(tmp_path: Path) -> None:
    key = add(tmp_path, "export", 1)
    store = unused(tmp_path)
    with locked_if_free(Layout(tmp_path).lock(key)):
        report = store.gc(max_bytes=0)
    assert [(step.key, step.reason) for step in report.spared] == [(key, "it is being built")]
    assert (report.kept, report.kept_bytes) == (1, SIZE)
    assert keys_in(store) == {key}


def test_what_cannot_be_moved_is_spared_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = add(tmp_path, "export", 1)
    store = unused(tmp_path)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "The process cannot access the file")

    monkeypatch.setattr(Path, "rename", refuse)
    monkeypatch.setattr("time.sleep", lambda _: None)
    report = store.gc(max_bytes=0)
    assert [step.reason for step in report.spared] == ["it cannot be removed (The process cannot access the file)"]
    assert keys_in(store) == {key}


def test_leftovers_of_dead_processes_go_and_are_counted(tmp_path: Path) -> None:
    add(tmp_path, "export", 1)
    me = this_process()
    for owner in (me, Owner(me.place, me.pid, 1)):
        folder = Layout(tmp_path).new_temporary("0" * 64, owner)
        folder.mkdir(parents=True)
        (folder / "part").write_bytes(b"12345")
    store = unused(tmp_path)
    assert store.listing().leftover_bytes == 10
    assert [
        (report.leftovers, report.leftover_bytes) for report in (store.gc(dry_run=True), store.gc(), store.gc())
    ] == [
        (1, 5),
        (1, 5),
        (0, 0),
    ]
    assert len(temporaries(tmp_path)) == 1, "that of a live process"


def test_locks_of_what_is_gone_go_too_and_locks_in_use_stay(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    kept = add(tmp_path, "export", 90)
    add(tmp_path, "optimize", 1)
    with locked_if_free(layout.lock("0" * 64)):
        unused(tmp_path).gc(older_than_s=30 * DAY)
        left = {path.stem for path in layout.locks()}
    assert left - {kept} == {"0" * 64}
    assert (kept in left) is (os.name == "posix"), "on Windows a lock's file goes whenever the lock is free"


def test_what_nobody_can_read_any_more_goes(tmp_path: Path) -> None:
    key = add(tmp_path, "export", 90)
    entry = next(iter(ArtifactStore(tmp_path).entries()))
    entry.path("entry.json").chmod(0o644)
    entry.path("entry.json").write_bytes(b"{}")
    store = unused(tmp_path)
    assert [one.key for one in store.listing().unusable] == [key]
    report = store.gc()
    assert [(step.key, step.reason, step.stage) for step in report.removed] == [
        (key, "damaged: entry.json is not what was written", None)
    ]
    assert not entry.folder.exists()


def test_a_store_that_is_not_there_is_empty_and_stays_away(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "none")
    assert store.gc(max_bytes=0).removed == ()
    assert store.listing().entries == ()
    assert store.verify().checked == 0
    assert not store.root.exists()


def test_what_is_not_the_stores_is_not_touched(tmp_path: Path) -> None:
    """Somebody names a project's folder as the store."""
    strange = [
        tmp_path / name for name in ("tmp/notes", "entries/ab/readme", "locks/mine.lock", "uses/x", "entries/zz")
    ]
    for path in strange:
        path.mkdir(parents=True)
    ArtifactStore(tmp_path).gc(max_bytes=0, older_than_s=0)
    assert all(path.exists() for path in strange)


def test_the_listing_tells_who_uses_what(tmp_path: Path) -> None:
    keys = chain(tmp_path)
    other = add(tmp_path, "other", 3, (keys["export"],))
    listing = unused(tmp_path).listing()
    entries = {entry.key: entry for entry in listing.entries}
    assert entries[keys["export"]].used_by == tuple(sorted((keys["optimize"], other)))
    assert entries[keys["compile"]].used_by == ()
    assert entries[keys["compile"]].inputs == (keys["quantize"],)
    assert entries[other].unused_s == 97 * DAY
    assert {entry.stage for entry in listing.entries} == {*CHAIN, "other"}
    assert listing.size_bytes == 5 * SIZE


def test_an_entry_that_disappears_while_it_is_verified_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path, "export", 1)

    def gone(entry: Entry) -> Flaw:
        shutil.rmtree(entry.folder)
        return Flaw("model.onnx is missing")

    monkeypatch.setattr("pytest_winml.store.collection.check_content", gone)
    report = ArtifactStore(tmp_path).verify()
    assert report.sound
    assert report.checked == 0


def test_the_made_up_stages_are_what_the_sizes_above_say(tmp_path: Path) -> None:
    assert ArtifactStore(tmp_path).build(ingredients(), writes(), model="digits").entry.size_bytes == SIZE
    assert key_of() == key_of()
