"""An entry that is not what was written is noticed, reported and built again; one of a newer version is left alone."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.errors import InfrastructureError
from pytest_winml.store.artifacts import ArtifactStore
from pytest_winml.store.digests import canonical_digest
from pytest_winml.store.locks import locked_if_free
from tests.store.stages import WEIGHTS, built, ingredients, never, temporaries, writes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_winml.records.store import Damage
    from pytest_winml.store.entries import Entry


def overwrite(path: Path, content: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(content)


def truncate(entry: Entry) -> None:
    overwrite(entry.path("model.onnx"), WEIGHTS[:-1])


def grow(entry: Entry) -> None:
    overwrite(entry.path("model.onnx"), WEIGHTS + b"\0")


def edit_a_byte(entry: Entry) -> None:
    overwrite(entry.path("model.onnx"), b"\xff" + WEIGHTS[1:])


def delete_a_file(entry: Entry) -> None:
    overwrite(entry.path("model.onnx"), b"")  # Windows deletes no read-only file
    entry.path("model.onnx").unlink()


def put_a_folder_in_its_place(entry: Entry) -> None:
    delete_a_file(entry)
    entry.path("model.onnx").mkdir()


def delete_the_record(entry: Entry) -> None:
    overwrite(entry.path("entry.json"), b"")
    entry.path("entry.json").unlink()


def empty_the_record(entry: Entry) -> None:
    overwrite(entry.path("entry.json"), b"")


def cut_the_record(entry: Entry) -> None:
    content = entry.path("entry.json").read_bytes()
    overwrite(entry.path("entry.json"), content[: len(content) // 2])


def fill_the_record_with_garbage(entry: Entry) -> None:
    overwrite(entry.path("entry.json"), b"\x00\xff\xfe garbage")


def nest_the_record_deeply(entry: Entry) -> None:
    overwrite(entry.path("entry.json"), b"[" * 100_000)


def make_the_record_a_list(entry: Entry) -> None:
    overwrite(entry.path("entry.json"), b"[]")


def edit_the_answer(entry: Entry) -> None:
    content = entry.path("entry.json").read_bytes()
    assert b'"precision": "fp32"' in content
    overwrite(entry.path("entry.json"), content.replace(b'"precision": "fp32"', b'"precision": "w8a8"'))


def edit_digest_and_file(entry: Entry) -> None:
    """Both, so that they agree with each other but not with the rest of the record."""
    edit_a_byte(entry)
    resealed(entry, lambda fields: fields["files"][0].update(sha256=hashlib.sha256(b"\xff" + WEIGHTS[1:]).hexdigest()))


def point_outside(entry: Entry) -> None:
    outside = entry.folder.parent / "secret"
    outside.write_bytes(WEIGHTS)
    resealed(entry, lambda fields: fields["files"][0].update(name="../secret"))


def add_a_field(entry: Entry) -> None:
    resealed(entry, lambda fields: fields.update(surprise=1))


def resealed(entry: Entry, change: Callable[[dict[str, Any]], object], *, seal: bool = True) -> None:
    fields = json.loads(entry.path("entry.json").read_bytes())
    change(fields)
    fields.pop("seal")
    if seal:
        fields["seal"] = canonical_digest(fields)
    overwrite(entry.path("entry.json"), json.dumps(fields).encode())


DAMAGES = [
    (truncate, "model.onnx has 4095 bytes where 4096 were written"),
    (grow, "model.onnx has 4097 bytes where 4096 were written"),
    (edit_a_byte, "model.onnx was edited"),
    (delete_a_file, "model.onnx is missing"),
    (put_a_folder_in_its_place, "model.onnx is not a file"),
    (delete_the_record, "it has no entry.json"),
    (empty_the_record, "entry.json is not what was written"),
    (cut_the_record, "entry.json is not what was written"),
    (fill_the_record_with_garbage, "entry.json is not what was written"),
    (nest_the_record_deeply, "entry.json is not what was written"),
    (make_the_record_a_list, "entry.json is not what was written"),
    (edit_the_answer, "entry.json is not what was written"),
    (edit_digest_and_file, "entry.json is not what was written"),
    (point_outside, "entry.json is not what was written"),
    (add_a_field, "entry.json is not what was written"),
]
every_damage = pytest.mark.parametrize(
    ("damage", "problem"), DAMAGES, ids=lambda value: getattr(value, "__name__", None) or ""
)


def build(store: ArtifactStore) -> Entry:
    return store.build(ingredients(), writes(answer={"precision": "fp32"}), model="digits").entry


@every_damage
def test_a_damaged_entry_is_reported_and_built_again(
    tmp_path: Path, damage: Callable[[Entry], None], problem: str
) -> None:
    entry = build(ArtifactStore(tmp_path))
    damage(entry)
    heard: list[Damage] = []
    store = ArtifactStore(tmp_path, on_damage=heard.append)
    assert store.get(entry.key) is None
    assert [(one.key, one.kind, one.removed, one.folder) for one in heard] == [
        (entry.key, "damaged", True, str(entry.folder))
    ]
    assert heard[0].problem.startswith(problem)
    assert not entry.folder.exists()
    again = build(store)
    assert again.content_digest == entry.content_digest
    assert again.path("model.onnx").read_bytes() == WEIGHTS
    assert len(heard) == 1
    assert temporaries(tmp_path) == []


@every_damage
def test_damage_is_noticed_also_by_a_process_that_has_read_the_entry_before(
    tmp_path: Path, damage: Callable[[Entry], None], problem: str
) -> None:
    store = ArtifactStore(tmp_path)
    entry = build(store)
    damage(entry)
    outcome = store.build(ingredients(), writes(answer={"precision": "fp32"}), model="digits")
    assert not outcome.reused
    assert outcome.entry.path("model.onnx").read_bytes() == WEIGHTS


@every_damage
def test_verify_names_the_damage_and_changes_nothing(
    tmp_path: Path, damage: Callable[[Entry], None], problem: str
) -> None:
    store = ArtifactStore(tmp_path)
    entry = build(store)
    other = built(store, "optimize").entry
    damage(entry)
    report = store.verify()
    assert not report.sound
    assert [(one.key, one.removed) for one in report.damaged] == [(entry.key, False)]
    assert report.damaged[0].problem.startswith(problem)
    assert (report.checked, report.checked_bytes) == (1, other.size_bytes)
    assert entry.folder.exists()


def test_an_entry_under_the_name_of_another_is_damaged(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    one, two = built(store, "export").entry, built(store, "optimize").entry
    shutil.rmtree(two.folder)
    shutil.copytree(one.folder, two.folder, copy_function=shutil.copyfile)
    heard: list[Damage] = []
    assert ArtifactStore(tmp_path, on_damage=heard.append).get(two.key) is None
    assert heard[0].problem == f"entry.json belongs to the entry {one.key}"


def test_files_that_are_not_the_entrys_do_not_matter(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    entry = built(store).entry
    entry.path("left by a viewer.txt").write_bytes(b"x")
    assert ArtifactStore(tmp_path).get(entry.key) is not None
    assert store.verify().sound


def test_an_entry_of_a_newer_version_is_not_ours_to_read_or_remove(tmp_path: Path) -> None:
    entry = build(ArtifactStore(tmp_path))
    resealed(entry, lambda fields: fields.update(schema_version=2, surprise="field"), seal=False)
    content = entry.path("entry.json").read_bytes()
    heard: list[Damage] = []
    store = ArtifactStore(tmp_path, on_damage=heard.append)
    assert store.get(entry.key) is None
    assert [(one.kind, one.removed) for one in heard] == [("newer", False)]
    assert heard[0].problem == "it has schema 2, and this version of pytest-winml reads up to 1"
    with pytest.raises(InfrastructureError, match="it has schema 2") as caught:
        store.build(ingredients(), never, model="digits")
    assert caught.value.remedy == "choose another --winml-store, or update pytest-winml if a newer version wrote it."
    assert store.verify().sound
    assert [one.key for one in store.verify().newer] == [entry.key]
    store.gc(older_than_s=0, max_bytes=0)
    assert entry.path("entry.json").read_bytes() == content


def test_what_looks_damaged_while_somebody_works_on_it_is_left_to_them(tmp_path: Path) -> None:
    entry = build(ArtifactStore(tmp_path))
    truncate(entry)
    heard: list[Damage] = []
    with locked_if_free(tmp_path / "locks" / f"{entry.key}.lock") as hold:
        assert hold == "held"
        assert ArtifactStore(tmp_path, on_damage=heard.append).get(entry.key) is None
    assert entry.folder.exists()
    assert heard == []


def test_a_whole_entry_that_took_the_place_of_a_damaged_one_in_the_last_moment_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes see the damage; the one that is late to the lock must not remove what the other has built."""
    store = ArtifactStore(tmp_path)
    entry = build(store)
    truncate(entry)
    late = ArtifactStore(tmp_path)
    look = late._discard_if_free

    def after_the_other(key: str, *rest: object, **named: object) -> None:
        assert not store.build(ingredients(), writes(answer={"precision": "fp32"}), model="digits").reused
        look(key, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(late, "_discard_if_free", after_the_other)
    late.get(entry.key)
    assert ArtifactStore(tmp_path).get(entry.key) is not None
