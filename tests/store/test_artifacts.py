"""Building into the store and reading from it, in one process."""

from __future__ import annotations

import json
import os
import shutil
import stat
from typing import TYPE_CHECKING

import msgspec
import pytest

from pytest_winml.errors import BuildError, InfrastructureError
from pytest_winml.records.artifact import TensorSpec
from pytest_winml.records.stages import StageAnswer
from pytest_winml.store.artifacts import ArtifactStore, default_root, stage_key
from pytest_winml.store.entries import name_problem
from tests.platforms import posix_only
from tests.store.stages import WEIGHTS, built, ingredients, key_of, never, temporaries, writes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


def test_what_was_built_is_found_again_and_not_built_again(store: ArtifactStore) -> None:
    first = store.build(ingredients(), writes({"model.onnx": b"graph", "model.onnx.data": WEIGHTS}), model="digits")
    second = store.build(ingredients(), never, model="another name of the same")
    assert (first.reused, second.reused) == (False, True)
    assert second.entry.path("model.onnx").read_bytes() == b"graph"
    assert second.entry.path("model.onnx.data").read_bytes() == WEIGHTS
    assert second.entry.record == first.entry.record
    assert temporaries(store.root) == []


def test_another_process_later_finds_it_too(store: ArtifactStore) -> None:
    entry = built(store).entry
    found = ArtifactStore(store.root).get(entry.key)
    assert found is not None
    assert found.record == entry.record
    assert found.key == stage_key(ingredients())


def test_a_key_that_was_never_built_is_not_there_and_asking_leaves_no_trace(store: ArtifactStore) -> None:
    assert store.get(key_of()) is None
    assert not store.root.exists()


@pytest.mark.parametrize("key", ["", "../escape", "AB" * 32, "ab" * 31, "ab" * 32 + "\n"])
def test_what_is_no_key_is_refused(store: ArtifactStore, key: str) -> None:
    with pytest.raises(ValueError, match="no key"):
        store.get(key)


def test_the_record_is_for_people_and_tells_how_the_entry_came_to_be(store: ArtifactStore) -> None:
    entry = store.build(
        ingredients(options={"opset": 17}, tools={"onnx": "1.19.0"}, ep_identity={"soc": "60"}),
        writes(answer={"facts": {"opset": 18}}),
        model="détecteur",
        inputs=("cd" * 32,),
    ).entry
    text = entry.path("entry.json").read_text(encoding="utf-8")
    assert len(text.splitlines()) > 20
    assert "détecteur" in text
    fields = json.loads(text)
    assert fields["schema_version"] == 1
    assert fields["key"] == entry.key
    assert fields["ingredients"] == {
        "stage": "export",
        "stage_version": 1,
        "input_digest": "ab" * 32,
        "options": {"opset": 17},
        "tools": {"onnx": "1.19.0"},
        "ep_identity": {"soc": "60"},
    }
    assert fields["answer"] == {"facts": {"opset": 18}}
    assert fields["inputs"] == ["cd" * 32]
    assert [(file["name"], file["size_bytes"]) for file in fields["files"]] == [("model.onnx", len(WEIGHTS))]
    assert {"content_digest", "created_at", "elapsed_s", "plugin_version", "model"} <= fields.keys()


def test_the_time_a_stage_took_stays_with_its_result(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, now=lambda: 1_790_000_000.0)
    entry = built(store).entry
    assert 0 <= entry.elapsed_s < 60
    assert entry.record.created_at == "2026-09-21T14:13:20+00:00"
    assert built(store).entry.elapsed_s == entry.elapsed_s


def test_an_answer_may_be_a_record_and_comes_back_as_plain_data(store: ArtifactStore) -> None:
    answer = StageAnswer(
        facts={"opset": 17, "share": 0.5, "ops": {"Conv": 2}},
        inputs=(TensorSpec(name="x", dtype="float32", shape=(1, "n"), low=0.0, high=1.0),),
    )
    for _ in range(2):
        entry = store.build(ingredients(), writes(answer=answer), model="digits").entry
        assert msgspec.convert(entry.answer, StageAnswer) == answer


@pytest.mark.parametrize(
    "answer", [{"sqnr_db": float("nan")}, {"deep": [{"x": float("inf")}]}, ["a", "list"], {"path": object()}, "text"]
)
def test_an_answer_that_json_cannot_say_is_the_stages_fault_and_nothing_is_stored(
    store: ArtifactStore, answer: object
) -> None:
    with pytest.raises(BuildError, match="answer of stage 'export'"):
        store.build(ingredients(), writes(answer=answer), model="digits")
    assert store.get(key_of()) is None
    assert temporaries(store.root) == []


def test_equal_content_has_an_equal_digest_whatever_it_was_made_of(store: ArtifactStore) -> None:
    one, two = built(store, "export").entry, built(store, "optimize").entry
    other = store.build(ingredients("quantize"), writes({"model.onnx": b"x"}), model="digits").entry
    renamed = store.build(ingredients("compile"), writes({"other.onnx": WEIGHTS}), model="digits").entry
    assert one.key != two.key
    assert one.content_digest == two.content_digest
    assert len({one.content_digest, other.content_digest, renamed.content_digest}) == 3


def test_files_in_folders_are_stored_and_no_files_at_all_are_fine(store: ArtifactStore) -> None:
    entry = store.build(ingredients(), writes({"trace/ops.csv": b"a", "model.onnx": b"b"}), model="digits").entry
    assert [file.name for file in entry.files] == ["model.onnx", "trace/ops.csv"]
    assert entry.path("trace/ops.csv").read_bytes() == b"a"
    assert store.build(ingredients("check"), writes({}, {"ok": True}), model="digits").entry.files == ()
    assert ArtifactStore(store.root).get(entry.key) is not None


class Surprise(Exception):
    pass


@pytest.mark.parametrize("error", [Surprise, KeyboardInterrupt, BuildError])
def test_a_stage_that_fails_stores_nothing_and_leaves_nothing(store: ArtifactStore, error: type[BaseException]) -> None:
    def make(folder: Path) -> object:
        writes()(folder)
        raise error("no")

    with pytest.raises(error, match="no"):
        store.build(ingredients(), make, model="digits")
    assert temporaries(store.root) == []
    assert store.get(key_of()) is None
    assert not built(store).reused, "and the key is free again"


def test_a_stage_starts_in_an_empty_folder_of_its_own(store: ArtifactStore) -> None:
    seen: list[Path] = []

    def make(folder: Path) -> None:
        assert folder.is_dir()
        assert list(folder.iterdir()) == []
        seen.append(folder)

    store.build(ingredients("export"), make, model="digits")
    store.build(ingredients("optimize"), make, model="digits")
    assert seen[0] != seen[1]


@posix_only
def test_stored_files_are_read_only(store: ArtifactStore) -> None:
    entry = built(store).entry
    assert [stat.S_IMODE(path.stat().st_mode) & 0o222 for path in entry.folder.iterdir()] == [0, 0]


@pytest.mark.parametrize(
    "name",
    ["nul", "CON.onnx", "com1.data", "a/lpt9", "entry.json", "Entry.JSON", "x" * 61],
)
def test_a_stage_cannot_store_names_that_some_system_has_not(store: ArtifactStore, name: str) -> None:
    """Made by hand, since Windows itself cannot make most of them."""
    assert name_problem(name) is not None


@pytest.mark.parametrize("name", ["a.", "b ", "a:b", "a?b", "a\\b", "../a", "/a", "a//b", "./a", "", "a\x01"])
def test_a_name_that_windows_cannot_say_or_that_leaves_the_folder_is_no_name(name: str) -> None:
    assert name_problem(name) is not None


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data", "trace/ops.csv", "com10.bin", "Conv_0.bin", "é.bin"])
def test_ordinary_names_are_fine(name: str) -> None:
    assert name_problem(name) is None


@posix_only
@pytest.mark.parametrize("files", [{"nul.onnx": b""}, {"Model.onnx": b"", "model.onnx": b""}], ids=["reserved", "case"])
def test_a_result_that_could_not_be_copied_to_windows_is_the_stages_fault(
    store: ArtifactStore, files: dict[str, bytes]
) -> None:
    with pytest.raises(BuildError, match=r"stage 'export' wrote '.*', which cannot be stored: Windows"):
        store.build(ingredients(), writes(files), model="digits")
    assert temporaries(store.root) == []


@posix_only
@pytest.mark.parametrize("target", ["outside", "outside.bin"])
def test_a_link_out_of_the_folder_is_not_a_result(tmp_path: Path, store: ArtifactStore, target: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside.bin").write_bytes(b"weights")
    with pytest.raises(BuildError, match=r"wrote 'model\.onnx', which is not a file of its own"):
        store.build(ingredients(), lambda folder: (folder / "model.onnx").symlink_to(tmp_path / target), model="digits")


def test_a_copy_of_a_read_only_file_can_be_stored_and_removed(tmp_path: Path, store: ArtifactStore) -> None:
    """A tool that copies a file copies its mode; on Windows such a file cannot be flushed or deleted as it is."""

    def make(folder: Path) -> None:
        (folder / "model.onnx").write_bytes(b"x")
        (folder / "model.onnx").chmod(stat.S_IREAD)

    def fail(folder: Path) -> None:
        make(folder)
        raise Surprise

    assert store.build(ingredients(), make, model="digits").entry.path("model.onnx").read_bytes() == b"x"
    with pytest.raises(Surprise):
        store.build(ingredients("optimize"), fail, model="digits")
    assert temporaries(store.root) == []


def test_somebody_else_who_was_first_in_spite_of_the_lock_is_right(tmp_path: Path, store: ArtifactStore) -> None:
    """As on a network drive whose locks do not reach every machine."""
    theirs = built(ArtifactStore(tmp_path / "other machine")).entry
    target = store.root / "entries" / theirs.key[:2] / theirs.key

    def make(folder: Path) -> None:
        writes()(folder)
        shutil.copytree(theirs.folder, target, copy_function=shutil.copyfile)

    outcome = store.build(ingredients(), make, model="mine")
    assert outcome.reused
    assert outcome.entry.record == theirs.record
    assert temporaries(store.root) == []


def test_what_is_no_entry_is_not_taken_for_one_when_it_stands_in_the_way(store: ArtifactStore) -> None:
    target = store.root / "entries" / key_of()[:2] / key_of()

    def make(folder: Path) -> None:
        writes()(folder)
        target.mkdir(parents=True)
        (target / "somebody's").write_bytes(b"x")

    with pytest.raises(InfrastructureError, match=r"cannot be used: it has no entry\.json"):
        store.build(ingredients(), make, model="mine")
    assert temporaries(store.root) == []
    assert not built(store).reused, "and the next build clears it away"


def test_using_an_entry_is_noted_without_changing_it(tmp_path: Path) -> None:
    now = [1000.0]
    store = ArtifactStore(tmp_path, now=lambda: now[0])
    key = built(store).entry.key
    now[0] = 5000.0
    assert store.get(key) is not None
    assert [entry.last_used_at for entry in store.entries()] == [5000.0]
    assert store.verify().sound


def test_every_entry_can_be_walked_through(store: ArtifactStore) -> None:
    keys = {built(store, stage).entry.key for stage in ("export", "optimize", "quantize")}
    assert {entry.key for entry in store.entries()} == keys
    assert list(ArtifactStore(store.root / "elsewhere").entries()) == []


def test_content_is_read_once_per_process_and_again_when_a_file_has_another_time(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = built(store).entry
    reads: list[Path] = []

    def digest(paths: list[Path]) -> str:
        reads.extend(paths)
        return "of another content"

    monkeypatch.setattr("pytest_winml.store.entries.sha256_of", digest)
    assert store.get(entry.key) is not None, "whoever built it has read it"
    assert reads == []
    assert ArtifactStore(store.root).get(entry.key, content=False) is not None
    assert reads == []
    os.utime(entry.path("model.onnx"), (1, 1))
    assert store.get(entry.key) is None, "the stand-in for the digest finds every file edited"
    assert reads == [entry.path("model.onnx")] * 2, "once before the lock, once under it"


def test_the_default_store_is_in_the_users_cache_folder() -> None:
    root = default_root()
    assert root.is_absolute()
    assert root.name == "store"
    assert "pytest-winml" in root.parts


def test_paths_fit_windows_under_a_root_of_a_hundred_letters(tmp_path: Path) -> None:
    lengths: list[int] = []

    def make(folder: Path) -> None:
        lengths.append(len(str(folder / "model.onnx.data").removeprefix(str(tmp_path))))
        writes()(folder)

    entry = ArtifactStore(tmp_path).build(ingredients(), make, model="digits").entry
    lengths.append(len(str(entry.path("model.onnx.data")).removeprefix(str(tmp_path))))
    assert max(lengths) + 100 < 240


def test_backup_programs_are_told_to_leave_the_store_out(store: ArtifactStore) -> None:
    built(store)
    assert (store.root / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55")
