"""A small run of tools/soak_store.py, and that it would notice what it looks for."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.store.artifacts import ArtifactStore
from tests.store.stages import built

if TYPE_CHECKING:
    from types import ModuleType

TOOL = Path(__file__).parents[2] / "tools" / "soak_store.py"


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    spec = importlib.util.spec_from_file_location("soak_store", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["soak_store"] = module  # its dataclass looks itself up there
    spec.loader.exec_module(module)
    return module


def test_three_kills_change_nothing_in_the_end() -> None:
    arguments = ["--kills", "3", "--models", "2", "--builders", "3", "--size-mb", "0.3", "--seed", "11"]
    child = subprocess.run([sys.executable, str(TOOL), *arguments], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stdout + child.stderr
    assert "every store ended as if nobody had been killed" in child.stdout
    rows = dict(line.rsplit(maxsplit=1) for line in child.stdout.splitlines()[:7])
    assert rows["kills"] == "3"
    assert rows["problems"] == "0"
    assert int(rows["stages begun"]) >= int(rows["stages finished"]) >= 8


@pytest.mark.parametrize(
    ("lines", "again"),
    [
        (["begun a", "finished a", "begun b", "finished b"], []),
        (["begun a", "kill", "begun a", "finished a"], []),
        (["begun a", "finished a", "begun a"], ["a"]),
        (["begun a", "there a", "kill", "begun a"], ["a"]),
    ],
)
def test_it_sees_a_stage_begun_again(soak: Any, lines: list[str], again: list[str]) -> None:
    assert soak.built_twice(lines) == again


def test_it_sees_what_is_wrong_with_a_store(soak: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("")
    store = ArtifactStore(tmp_path / "store")
    entry, other = built(store, "export").entry, built(store, "optimize").entry
    good = {one.key: one.content_digest for one in (entry, other)}
    assert soak.judge(store.root, log, good) == []
    entry.path("model.onnx").chmod(0o644)
    entry.path("model.onnx").write_bytes(b"short")
    (store.root / "tmp" / "left").mkdir()
    assert soak.judge(store.root, log, {other.key: "another digest", "0" * 64: "x"}) == [
        f"{'0' * 64} is missing",
        f"{entry.key} is too much",
        f"{other.key} has other content",
        f"{entry.key}: model.onnx has 5 bytes where 4096 were written",
        "temporary folder left: left",
    ]
