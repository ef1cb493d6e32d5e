"""Full disks, read-only stores and what Windows has open: clear errors, nothing lost, nothing left."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_winml.errors import InfrastructureError
from pytest_winml.store import files
from pytest_winml.store.artifacts import ArtifactStore
from pytest_winml.store.files import remove_tree, rename
from tests.platforms import posix_only
from tests.store.stages import WEIGHTS, built, ingredients, key_of, never, temporaries, writes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_winml.records.store import Damage

FULL = OSError(errno.ENOSPC, "No space left on device")
NOBODY = 65534


def refuse(error: OSError) -> Callable[..., None]:
    def refusing(*_: object, **__: object) -> None:
        raise error

    return refusing


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.rename", "pathlib.Path.write_text", "pathlib.Path.mkdir"])
def test_a_disk_that_fills_up_is_named_with_a_way_out_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    store = ArtifactStore(tmp_path)
    before = built(store, "export").entry
    monkeypatch.setattr(call, refuse(FULL))
    with pytest.raises(InfrastructureError, match="No space left on device") as caught:
        built(store, "optimize")
    monkeypatch.undo()
    assert str(tmp_path) in caught.value.message
    assert "pytest-winml cache gc" in str(caught.value.remedy)
    assert "--winml-store" in str(caught.value.remedy)
    assert temporaries(tmp_path) == []
    assert ArtifactStore(tmp_path).get(before.key) is not None
    assert not built(store, "optimize").reused


def test_a_stage_that_fills_the_disk_is_no_verdict_about_the_model(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    with pytest.raises(InfrastructureError, match="No space left") as caught:
        store.build(ingredients(), refuse(FULL), model="digits")
    assert "make room" in str(caught.value.remedy)
    assert temporaries(tmp_path) == []


def test_any_other_error_of_a_stage_is_its_own(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"model\.bin"):
        ArtifactStore(tmp_path).build(ingredients(), lambda _: Path("model.bin").read_bytes(), model="digits")


@pytest.mark.parametrize("folder", ["tmp", "locks", "entries"])
def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path, folder: str) -> None:
    """Not even an administrator can write below it."""
    (tmp_path / folder).write_bytes(b"a file")
    with pytest.raises(InfrastructureError) as caught:
        built(ArtifactStore(tmp_path))
    assert str(tmp_path / folder) in caught.value.message
    assert "--winml-store" in str(caught.value.remedy)


def test_a_root_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"a file")
    with pytest.raises(InfrastructureError, match="taken"):
        built(ArtifactStore(tmp_path / "taken" / "store"))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, which those of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix="winml-"))
    folder.chmod(0o755)
    yield folder
    for parent, _, _ in os.walk(folder):
        Path(parent).chmod(0o755)
    shutil.rmtree(folder)


def as_ordinary_user(body: Callable[[], None]) -> None:
    """Modes mean nothing to root: in a child, as somebody else."""
    if os.geteuid() != 0:
        body()
        return

    def child() -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        body()

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == 0


def make_read_only(root: Path) -> None:
    for parent, _, _ in os.walk(root):
        Path(parent).chmod(0o555)


@posix_only
def test_a_read_only_store_serves_what_it_has_and_says_so_when_it_has_not(open_folder: Path) -> None:
    key = built(ArtifactStore(open_folder)).entry.key
    make_read_only(open_folder)

    def body() -> None:
        store = ArtifactStore(open_folder)
        entry = store.get(key)
        assert entry is not None
        assert entry.path("model.onnx").read_bytes() == WEIGHTS
        assert store.build(ingredients(), never, model="digits").reused
        assert store.verify().sound
        with pytest.raises(InfrastructureError, match="Permission denied") as caught:
            store.build(ingredients("optimize"), never, model="digits")
        assert str(open_folder) in caught.value.message
        assert "choose another --winml-store" in str(caught.value.remedy)

    as_ordinary_user(body)


@posix_only
def test_a_damaged_entry_of_a_read_only_store_is_reported_and_left(open_folder: Path) -> None:
    entry = built(ArtifactStore(open_folder)).entry
    entry.path("model.onnx").chmod(0o644)
    entry.path("model.onnx").write_bytes(b"short")
    shutil.rmtree(open_folder / "uses")  # or this process would count as a user of the entry
    make_read_only(open_folder)

    def body() -> None:
        heard: list[Damage] = []
        store = ArtifactStore(open_folder, on_damage=heard.append)
        assert store.get(entry.key) is None
        assert [(one.kind, one.removed) for one in heard] == [("damaged", False)]
        report = store.gc(max_bytes=0)
        assert [(step.key, step.reason) for step in report.spared] == [(entry.key, "the store cannot be written to")]
        assert report.removed == ()
        with pytest.raises(InfrastructureError):
            store.build(ingredients(), never, model="digits")

    as_ordinary_user(body)
    assert entry.folder.exists()


@posix_only
@pytest.mark.parametrize("name", ["entry.json", "model.onnx"])
def test_an_entry_that_another_user_hides_is_not_damaged(open_folder: Path, name: str) -> None:
    entry = built(ArtifactStore(open_folder)).entry
    if os.geteuid() == 0:
        for path in (open_folder, *open_folder.rglob("*")):
            path.chmod(0o777)
    entry.path(name).chmod(0o000)

    def body() -> None:
        heard: list[Damage] = []
        store = ArtifactStore(open_folder, on_damage=heard.append)
        assert store.get(entry.key) is None
        assert [(one.kind, one.removed) for one in heard] == [("unreadable", False)]
        with pytest.raises(InfrastructureError, match=f"{name} cannot be read"):
            store.build(ingredients(), never, model="digits")
        assert store.gc().removed == ()
        assert not store.verify().sound

    as_ordinary_user(body)
    assert entry.folder.exists()


@posix_only
def test_a_root_that_may_not_be_entered_is_named(open_folder: Path) -> None:
    root = open_folder / "private"
    built(ArtifactStore(root))
    root.chmod(0o000)

    def body() -> None:
        for attempt in (lambda: ArtifactStore(root).get(key_of()), lambda: list(ArtifactStore(root).entries())):
            with pytest.raises(InfrastructureError, match="cannot be read"):
                attempt()

    as_ordinary_user(body)


def test_a_rename_waits_for_who_has_a_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.rename
    attempts: list[Path] = []
    pauses: list[float] = []

    def busy_twice(source: Path, target: Path) -> Path:
        attempts.append(source)
        if len(attempts) < 3:
            raise PermissionError(errno.EACCES, "in use")
        return real(source, target)

    monkeypatch.setattr(Path, "rename", busy_twice)
    monkeypatch.setattr("time.sleep", pauses.append)
    (tmp_path / "a").mkdir()
    rename(tmp_path / "a", tmp_path / "b", patience_s=(1, 2, 4))
    assert pauses == [1, 2]
    assert (tmp_path / "b").exists()


def test_a_file_that_is_open_for_a_moment_does_not_stop_an_entry(tmp_path: Path) -> None:
    """A virus scanner looks at what is new; Windows moves no folder in which a file is open."""
    closers: list[threading.Timer] = []

    def make(folder: Path) -> None:
        writes()(folder)
        scanner = (folder / "model.onnx").open("rb")
        closers.append(threading.Timer(0.3, scanner.close))
        closers[0].start()

    assert not ArtifactStore(tmp_path).build(ingredients(), make, model="digits").reused
    closers[0].join()
    assert temporaries(tmp_path) == []


@pytest.mark.parametrize(("error", "tries"), [(PermissionError(errno.EACCES, "in use"), 3), (FULL, 1)])
def test_a_rename_gives_up_in_the_end_and_at_once_where_waiting_helps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, tries: int
) -> None:
    attempts: list[int] = []

    def refusing(*_: object) -> None:
        attempts.append(1)
        raise error

    monkeypatch.setattr(Path, "rename", refusing)
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(type(error)):
        rename(tmp_path / "a", tmp_path / "b", patience_s=(0, 0))
    assert len(attempts) == tries


def test_a_rename_onto_something_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows says "access denied" for that too."""
    monkeypatch.setattr(Path, "rename", refuse(PermissionError(errno.EACCES, "denied")))
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("waited"))
    with pytest.raises(PermissionError):
        rename(tmp_path / "a", tmp_path, patience_s=(1,))


def test_a_long_path_on_windows_is_called_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows says "path not found" for it."""
    monkeypatch.setattr(files, "WINDOWS", True)
    error = FileNotFoundError(errno.ENOENT, "The system cannot find the path specified")
    with pytest.raises(InfrastructureError) as caught, files.storage_trouble(tmp_path / ("x" * 250), "made"):
        raise error
    assert caught.value.remedy == "choose a --winml-store with a shorter path."


@posix_only
def test_a_tree_with_read_only_folders_is_removed(open_folder: Path) -> None:
    root = open_folder / "tree"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "c").write_bytes(b"x")
    open_folder.chmod(0o777)
    if os.geteuid() == 0:
        for path in (root, *root.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    make_read_only(root)

    def body() -> None:
        assert remove_tree(root)

    as_ordinary_user(body)
    assert not root.exists()


def test_removing_what_is_not_there_is_done(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "nothing")


def test_parts_of_files_are_never_seen_under_the_name_of_an_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each flush, and when the record is written, the entry is not there yet."""
    store = ArtifactStore(tmp_path)
    seen: list[bool] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        seen.append((tmp_path / "entries" / key_of()[:2] / key_of()).exists())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    store.build(ingredients(), writes(), model="digits")
    before, after = seen[:2], seen[2:]
    assert before == [False, False], "the model, the record"
    assert after == ([] if os.name == "nt" else [False, True]), "the folder before it takes the name, its parent after"
