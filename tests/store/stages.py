"""Made-up stages for tests of the store."""

from __future__ import annotations

import multiprocessing
import time
from typing import TYPE_CHECKING, Any

from pytest_winml.records.store import StageIngredients
from pytest_winml.store.artifacts import ArtifactStore, Built, stage_key
from pytest_winml.store.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WEIGHTS = bytes(range(256)) * 16


def ingredients(stage: str = "export", **changes: Any) -> StageIngredients:
    return StageIngredients(**{"stage": stage, "stage_version": 1, "input_digest": "ab" * 32, **changes})


def key_of(stage: str = "export", **changes: Any) -> str:
    return stage_key(ingredients(stage, **changes))


def writes(files: dict[str, bytes] | None = None, answer: object = None) -> Callable[[Path], object]:
    """A stage that leaves these files."""

    def make(folder: Path) -> object:
        for name, content in ({"model.onnx": WEIGHTS} if files is None else files).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return answer

    return make


def never(_: Path) -> object:
    raise AssertionError("this was built before")


def built(store: ArtifactStore, stage: str = "export", *, inputs: tuple[str, ...] = (), **changes: Any) -> Built:
    return store.build(ingredients(stage, **changes), writes(), model="digits", inputs=inputs)


def temporaries(root: Path) -> list[str]:
    folder = Layout(root).temporaries_folder
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def build_and_log(root: Path, stage: str, log: Path, pause_s: float) -> None:
    """For a process of its own: one line in `log` per time the stage really runs."""

    def make(folder: Path) -> dict[str, str]:
        with log.open("ab", buffering=0) as file:
            file.write(f"{stage} begins\n".encode())
        (folder / "model.onnx").write_bytes(WEIGHTS)
        time.sleep(pause_s)
        with log.open("ab", buffering=0) as file:
            file.write(f"{stage} ends\n".encode())
        return {"made": stage}

    entry = ArtifactStore(root).build(ingredients(stage), make, model="digits").entry
    assert entry.path("model.onnx").read_bytes() == WEIGHTS
    assert entry.answer == {"made": stage}


def start(target: Callable[..., None], *arguments: object) -> multiprocessing.process.BaseProcess:
    """A fresh process, on every system alike."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def finish(processes: list[multiprocessing.process.BaseProcess], limit_s: float = 120) -> None:
    for process in processes:
        process.join(limit_s)
    assert [process.exitcode for process in processes] == [0] * len(processes)
