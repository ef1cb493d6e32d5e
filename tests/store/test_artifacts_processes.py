"""Many processes at one store: each stage is built once, and who dies leaves nothing that is taken for a result."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import psutil

from pytest_winml.store.artifacts import ArtifactStore, Built
from pytest_winml.store.layout import Layout
from pytest_winml.store.ownership import Owner, this_process
from pytest_winml.store.uses import keys_in_use
from tests.execute.processes import wait_until
from tests.platforms import posix_only
from tests.store.stages import (
    WEIGHTS,
    build_and_log,
    built,
    finish,
    ingredients,
    key_of,
    start,
    temporaries,
    writes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_winml.records.store import Damage


def test_eight_processes_that_want_one_key_build_it_once(tmp_path: Path) -> None:
    root, log = tmp_path / "store", tmp_path / "log"
    finish([start(build_and_log, root, "export", log, 0.5) for _ in range(8)])
    assert log.read_text().splitlines() == ["export begins", "export ends"]
    assert temporaries(root) == []


def test_two_keys_are_built_side_by_side(tmp_path: Path) -> None:
    """Each waits inside its stage until the other is in there too."""
    store = ArtifactStore(tmp_path)
    together = threading.Barrier(2, timeout=30)

    def one(stage: str) -> None:
        def make(folder: Path) -> None:
            together.wait()
            writes()(folder)

        ArtifactStore(tmp_path).build(ingredients(stage), make, model="digits")

    threads = [threading.Thread(target=one, args=(stage,)) for stage in ("export", "optimize")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entry.key for entry in store.entries()} == {key_of("export"), key_of("optimize")}


def test_two_threads_that_want_one_key_build_it_once(tmp_path: Path) -> None:
    store, log = ArtifactStore(tmp_path / "store"), tmp_path / "log"
    threads = [threading.Thread(target=build_and_log, args=(store.root, "export", log, 0.2)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.read_text().splitlines() == ["export begins", "export ends"]


def test_who_waits_is_told_for_whom(tmp_path: Path) -> None:
    root, log = tmp_path / "store", tmp_path / "log"
    other = start(build_and_log, root, "export", log, 1.0)
    wait_until(log.exists, limit_s=60)
    heard: list[str] = []
    outcome = built(ArtifactStore(root, on_wait=heard.append))
    finish([other])
    assert outcome.reused
    assert heard == [f"waiting for process {other.pid}, which is building export of digits"]


def hang(root: Path, stage: str, flag: Path) -> None:
    def make(folder: Path) -> None:
        writes()(folder)
        flag.touch()
        time.sleep(600)

    ArtifactStore(root).build(ingredients(stage), make, model="digits")


def test_a_killed_build_is_taken_over_and_what_it_left_is_removed(tmp_path: Path) -> None:
    root, flag = tmp_path / "store", tmp_path / "flag"
    victim = start(hang, root, "export", flag)
    wait_until(flag.exists, limit_s=60)
    left = temporaries(root)
    assert len(left) == 1
    optimized = built(ArtifactStore(root), "optimize")
    assert not optimized.reused
    assert temporaries(root) == left, "its process lives"
    victim.kill()
    victim.join(30)
    assert ArtifactStore(root).get(key_of("export")) is None
    assert not built(ArtifactStore(root), "export").reused
    assert temporaries(root) == []


def test_a_later_run_that_builds_nothing_cleans_up_as_well(tmp_path: Path) -> None:
    root, flag = tmp_path / "store", tmp_path / "flag"
    key = built(ArtifactStore(root), "optimize").entry.key
    victim = start(hang, root, "export", flag)
    wait_until(flag.exists, limit_s=60)
    victim.kill()
    victim.join(30)
    assert len(temporaries(root)) == 1
    assert ArtifactStore(root).get(key) is not None
    assert temporaries(root) == []


def leftover(root: Path, owner: Owner, age_s: float = 0) -> Path:
    folder = Layout(root).new_temporary("0" * 64, owner)
    folder.mkdir(parents=True)
    (folder / "part").write_bytes(b"x")
    os.utime(folder, (time.time() - age_s,) * 2)
    return folder


def test_an_id_that_now_belongs_to_another_process_does_not_keep_a_leftover(tmp_path: Path) -> None:
    me = this_process()
    live = leftover(tmp_path, me)
    reused_id = leftover(tmp_path, Owner(me.place, me.pid, me.started_ms - 60_000))
    no_such = leftover(tmp_path, Owner(me.place, 2**22 + 1, me.started_ms))
    built(ArtifactStore(tmp_path))
    assert live.exists()
    assert not reused_id.exists()
    assert not no_such.exists()


def test_a_process_that_is_dead_but_not_buried_is_gone() -> None:
    """Its parent has not asked how it ended; in a container nobody may ever ask."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = Owner(this_process().place, child.pid, round(psutil.Process(child.pid).create_time() * 1000))
    assert owner.life() == "alive"
    child.kill()
    wait_until(lambda: owner.life() == "gone")
    assert child.returncode is None
    child.communicate()


def test_what_another_machine_left_is_removed_only_after_days(tmp_path: Path) -> None:
    me = this_process()
    elsewhere = Owner("0badcafe", 2**22 + 1, me.started_ms)
    recent, old = leftover(tmp_path, elsewhere, age_s=2 * 86_400), leftover(tmp_path, elsewhere, age_s=4 * 86_400)
    built(ArtifactStore(tmp_path))
    assert recent.exists()
    assert not old.exists()


def test_a_leftover_whose_key_is_locked_is_not_touched_even_if_its_process_cannot_be_seen(tmp_path: Path) -> None:
    """As seen from another container that shares the store."""
    root, flag = tmp_path / "store", tmp_path / "flag"
    victim = start(hang, root, "export", flag)
    wait_until(flag.exists, limit_s=60)
    (name,) = temporaries(root)
    key, owner, rest = name.split(".")
    place, _, started = owner.split("-")
    folder = root / "tmp"
    unseen = folder / f"{key}.{place}-{2**22 + 1}-{started}.{rest}"
    unseen.mkdir()
    built(ArtifactStore(root), "optimize")
    assert unseen.exists()
    victim.kill()
    victim.join(30)
    built(ArtifactStore(root), "quantize")
    assert temporaries(root) == []


def test_what_has_no_owner_in_its_name_is_not_ours(tmp_path: Path) -> None:
    strange = tmp_path / "tmp" / "notes"
    strange.mkdir(parents=True)
    built(ArtifactStore(tmp_path))
    assert strange.exists()


def test_a_process_uses_what_it_asked_for_until_it_ends(tmp_path: Path) -> None:
    root, log = tmp_path / "store", tmp_path / "log"
    finish([start(build_and_log, root, "export", log, 0.0)])
    layout = Layout(root)
    assert keys_in_use(layout) == frozenset()
    ArtifactStore(root).get(key_of())
    assert keys_in_use(layout) == {key_of()}
    assert [path.name for path in layout.uses_folder.iterdir()] == [str(this_process())], "the dead one's note is gone"


RESULT = {"model.onnx": WEIGHTS, "trace/ops.csv": b"a,b"}


def build_it(store: ArtifactStore) -> Built:
    return store.build(ingredients(), writes(RESULT, {"precision": "fp32"}), model="digits")


def empty_it(store: ArtifactStore) -> None:
    assert len(store.gc(max_bytes=0).removed) == 1


def die(root: Path, step: int, action: Callable[[ArtifactStore], object]) -> None:
    """Ends, as by a kill, at the given one of the calls that touch the store."""
    left = [step]

    def die_at_the_last(event: str, arguments: tuple[object, ...]) -> None:
        touches = event.startswith(("os.", "shutil.")) or event == "open"
        if touches and any(str(root) in str(one) for one in arguments):
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)

    sys.addaudithook(die_at_the_last)
    action(ArtifactStore(root))
    os._exit(0)


def deaths(
    folder: Path, action: Callable[[ArtifactStore], object], prepare: Callable[[Path], object]
) -> Iterator[Path]:
    """Stores in which the action has died, once at each of its calls that touch the store, until one gets through."""
    for step in range(1, 200):
        root = folder / f"dies at {step}"
        prepare(root)
        child = multiprocessing.get_context("fork").Process(target=die, args=(root, step, action))
        child.start()
        child.join(60)
        if child.exitcode == 0:
            assert step > 10, "so many calls touch the store"
            return
        assert child.exitcode == 9
        yield root


@posix_only
def test_wherever_a_build_dies_there_is_a_whole_entry_or_none(tmp_path: Path) -> None:
    expected = build_it(ArtifactStore(tmp_path / "whole")).entry
    published = []
    for root in deaths(tmp_path, build_it, lambda _: None):
        heard: list[Damage] = []
        store = ArtifactStore(root, on_damage=heard.append)
        published.append(bool(list(store.entries())))
        outcome = build_it(store)
        assert outcome.reused is published[-1]
        assert heard == [], "what has the name of an entry is whole"
        assert outcome.entry.content_digest == expected.content_digest
        assert temporaries(root) == []
    assert {True, False} == set(published)


@posix_only
def test_wherever_a_removal_dies_there_is_a_whole_entry_or_none(tmp_path: Path) -> None:
    def prepare(root: Path) -> None:
        build_it(ArtifactStore(root))
        shutil.rmtree(root / "uses")  # or this process would count as a user of the entry

    left = []
    for root in deaths(tmp_path, empty_it, prepare):
        heard: list[Damage] = []
        store = ArtifactStore(root, on_damage=heard.append)
        left.append(bool(list(store.entries())))
        assert store.verify().sound
        assert build_it(store).reused is left[-1]
        assert heard == []
        store.gc()
        assert temporaries(root) == []
    assert {True, False} == set(left)
