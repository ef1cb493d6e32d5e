"""`pytest-winml cache`: what it prints, and the exit status scripts rely on."""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.cli import main
from pytest_winml.store import layout
from pytest_winml.store.artifacts import ArtifactStore
from tests.store.stages import built

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_winml.store.entries import Entry

DAY = 86_400.0


@pytest.fixture
def chain(tmp_path: Path) -> list[Entry]:
    """An export that was last used forty days ago, and what was made from it today."""
    long_ago = ArtifactStore(tmp_path, now=lambda: time.time() - 40 * DAY)
    export = built(long_ago, "export").entry
    optimized = built(ArtifactStore(tmp_path), "optimize", inputs=(export.key,)).entry
    loner = built(long_ago, "quantize").entry
    shutil.rmtree(tmp_path / "uses")  # the process that built is gone
    return [export, optimized, loner]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["cache", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_ls_shows_stage_model_size_age_and_who_uses_what(
    tmp_path: Path, chain: list[Entry], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["cache", "ls", "--store", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (row,) = (line.split() for line in lines if line.startswith(chain[0].key[:12]))
    assert row[1:5] == ["export", "digits", "4.1", "kB"]
    assert row[-5:] == ["40", "days", "ago", "1", "entry"]
    assert any(line.startswith(f"{chain[1].key[:12]}    optimize") for line in lines), "indented below its input"
    assert lines[-1] == f"3 entries, 12.3 kB in {tmp_path}"


def test_ls_as_json_is_the_same_for_scripts(
    tmp_path: Path, chain: list[Entry], capsys: pytest.CaptureFixture[str]
) -> None:
    listing = answer(capsys, "ls", "--store", str(tmp_path))
    assert listing["schema_version"] == 1
    assert listing["root"] == str(tmp_path)
    entries = {entry["key"]: entry for entry in listing["entries"]}
    assert entries[chain[0].key]["used_by"] == [chain[1].key]
    assert entries[chain[1].key]["inputs"] == [chain[0].key]
    assert 39 * DAY < entries[chain[2].key]["unused_s"] < 41 * DAY


def test_gc_by_age_removes_what_nothing_recent_was_made_from(
    tmp_path: Path, chain: list[Entry], capsys: pytest.CaptureFixture[str]
) -> None:
    dry = answer(capsys, "gc", "--store", str(tmp_path), "--older-than", "30d", "--dry-run")
    assert [step["key"] for step in dry["removed"]] == [chain[2].key]
    assert chain[2].folder.exists()
    assert main(["cache", "gc", "--store", str(tmp_path), "--older-than", "30d"]) == 0
    assert "removed 1 entry, 4.1 kB" in capsys.readouterr().out
    assert [entry.folder.exists() for entry in chain] == [True, True, False]


@pytest.mark.parametrize(("size", "kept"), [("0B", 0), ("5kB", 1), ("0.009 MB", 2), ("20GB", 3), ("1tb", 3)], ids=str)
def test_gc_by_size_keeps_as_much_as_fits(
    tmp_path: Path, chain: list[Entry], capsys: pytest.CaptureFixture[str], size: str, kept: int
) -> None:
    assert answer(capsys, "gc", "--store", str(tmp_path), "--max-size", size)["kept"] == kept


@pytest.mark.parametrize(
    ("age", "removed"), [("1d", 1), ("2w", 1), ("6w", 0), ("48h", 1), ("70000m", 0), ("60s", 1), ("39.5d", 1)]
)
def test_gc_reads_ages(
    tmp_path: Path, chain: list[Entry], capsys: pytest.CaptureFixture[str], age: str, removed: int
) -> None:
    report = answer(capsys, "gc", "--store", str(tmp_path), "--older-than", age, "--dry-run")
    assert len(report["removed"]) == removed


def test_verify_of_a_sound_store_exits_0(
    tmp_path: Path, chain: list[Entry], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cache", "verify", "--store", str(tmp_path)]) == 0
    assert "sound: 3 entries, 12.3 kB" in capsys.readouterr().out


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_verify_of_a_damaged_store_names_the_entry_and_exits_1(
    tmp_path: Path, chain: list[Entry], capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    chain[0].path("model.onnx").chmod(0o644)
    chain[0].path("model.onnx").write_bytes(b"short")
    assert main(["cache", "verify", "--store", str(tmp_path), *form]) == 1
    output = capsys.readouterr().out
    assert chain[0].key in output
    assert "model.onnx has 5 bytes" in " ".join(output.split())


def test_without_a_store_given_it_is_the_users(
    tmp_path: Path, chain: list[Entry], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_winml.store.artifacts.default_root", lambda: tmp_path)
    assert len(answer(capsys, "ls")["entries"]) == 3
    monkeypatch.setattr("pytest_winml.store.artifacts.default_root", lambda: tmp_path / "not yet")
    for action in ("ls", "gc", "verify"):
        assert answer(capsys, action)["root"] == str(tmp_path / "not yet")
    assert not (tmp_path / "not yet").exists()
    assert layout.default_root() != tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["lss"],
        ["ls", "--store", "no such folder"],
        ["gc", "--older-than", "30"],
        ["gc", "--older-than", "30 parsecs"],
        ["gc", "--older-than", "-1d"],
        ["gc", "--max-size", "20d"],
        ["gc", "--max-size", "lots"],
        ["gc", "--max-size", "nanGB"],
        ["verify", "--dry-run"],
    ],
    ids=" ".join,
)
def test_a_mistake_in_the_command_exits_4(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: object = main(["cache", *arguments])
    except SystemExit as stopped:
        status = stopped.code
    assert status == 4
    assert capsys.readouterr().err


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["cache", "--help"])
    assert stopped.value.code == 0
    assert "pytest-winml cache gc --older-than 30d" in capsys.readouterr().out
