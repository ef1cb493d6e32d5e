from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from pytest_winml.errors import InfrastructureError
from pytest_winml.store.files import sha256_of, write_atomically


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_new_file_gets_its_content_and_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "report.json"
    write_atomically(path, b"new")
    assert content_of(path.parent) == {"report.json": b"new"}


def test_an_old_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"old and longer than the new")
    write_atomically(path, b"new")
    assert content_of(tmp_path) == {"report.json": b"new"}


def test_until_the_content_is_on_the_disk_a_reader_sees_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"old")
    seen: list[bytes] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        seen.append(path.read_bytes())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, b"new")
    assert seen == [b"old"], "flushed once, before the new file took the name"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "report.json"
    path.write_bytes(b"old")
    if failing == "fsync":
        monkeypatch.setattr(os, "fsync", refuse)
    else:
        monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(InfrastructureError, match="No space left on device") as caught:
        write_atomically(path, b"new")
    assert str(path) in caught.value.message
    assert caught.value.remedy == "check space and permissions."
    monkeypatch.undo()
    assert content_of(tmp_path) == {"report.json": b"old"}


def test_an_interruption_passes_and_leaves_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "report.json", b"new")
    assert content_of(tmp_path) == {}


def test_a_folder_that_cannot_be_made_is_trouble_of_the_machine(tmp_path: Path) -> None:
    """A file stands where the folder should be: nobody, not even root, can write below it."""
    (tmp_path / "taken").write_bytes(b"a file")
    with pytest.raises(InfrastructureError, match="cannot be written"):
        write_atomically(tmp_path / "taken" / "report.json", b"new")


def test_a_name_that_is_a_folder_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()
    with pytest.raises(InfrastructureError, match="cannot be written"):
        write_atomically(tmp_path / "report.json", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_digest_is_over_the_content_in_order_and_not_over_names(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, content in zip(paths, (b"one", b"two"), strict=True):
        path.write_bytes(content)
    assert sha256_of(paths) == hashlib.sha256(b"onetwo").hexdigest()
    assert sha256_of(reversed(paths)) != sha256_of(paths)
    renamed = paths[0].rename(tmp_path / "c")
    assert sha256_of([renamed, paths[1]]) == hashlib.sha256(b"onetwo").hexdigest()


def test_a_file_larger_than_a_block_is_read_whole(tmp_path: Path) -> None:
    content = bytes(range(256)) * 8192
    (tmp_path / "large").write_bytes(content)
    assert sha256_of([tmp_path / "large"]) == hashlib.sha256(content).hexdigest()
