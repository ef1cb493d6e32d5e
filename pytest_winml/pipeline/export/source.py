"""Where a model's description and weights lie, and what is refused before anything of it is loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import ModelError
from pytest_winml.pipeline.export import hub
from pytest_winml.pipeline.export.hub import CONFIG, PREPROCESSOR, SAFETENSORS, SAFETENSORS_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_winml.records.stages import ExportRequest

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")
_TO_SAFETENSORS = "where you trust it, load it and write it with save_pretrained(folder, safe_serialization=True)."


@dataclass(frozen=True)
class Source:
    """`description` is config.json with nothing changed; `overrides` is what the user sets over it.

    A model with random weights and a `model_type` among the overrides needs no folder: its source is only a name.
    """

    name: str
    overrides: dict[str, Any]
    folder: Path | None = None
    commit: str | None = None
    description: dict[str, Any] = field(default_factory=dict)
    preprocessor: dict[str, Any] = field(default_factory=dict)

    @property
    def model_type(self) -> str | None:
        return self.overrides.get("model_type") or self.description.get("model_type")


def find(request: ExportRequest) -> Source:
    overrides = _overrides(request)
    if request.weights == "random" and "model_type" in overrides:
        refuse_remote_code(overrides, f"the config of {request.source!r}")
        return Source(request.source, overrides)
    folder, commit = _folder(request)
    description = _read(folder / CONFIG, required=True)
    for document in (description, overrides):
        refuse_remote_code(document, request.source)
    if request.weights == "pretrained":
        _check_description(folder, description)
        if commit is not None:
            hub.fetch(request.source, commit, offline=request.offline, with_weights=True)
        _check_weights(folder)
    preprocessor = _read(folder / PREPROCESSOR, required=False)
    return Source(request.source, overrides, folder, commit, description, preprocessor)


def refuse_remote_code(document: Any, where: str) -> None:
    """`auto_map` names Python files that come with a model; code is never run on a model's word."""
    for key in _all_keys(document):
        if key == "auto_map":
            raise ModelError(
                f"{where} brings its own Python code (auto_map in {CONFIG}), which is never run",
                remedy="use a revision whose architecture is part of transformers, or export it yourself to ONNX.",
            )


def _all_keys(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        yield from document
        for value in document.values():
            yield from _all_keys(value)


def _overrides(request: ExportRequest) -> dict[str, Any]:
    try:
        overrides = json.loads(request.config_json)
    except json.JSONDecodeError as error:
        raise ModelError(f"config= of {request.source!r} is not JSON ({error})") from error
    if not isinstance(overrides, dict):
        raise ModelError(f"config= of {request.source!r} must be an object, not {type(overrides).__name__}")
    return overrides


def _folder(request: ExportRequest) -> tuple[Path, str | None]:
    """Of a model on the hub, the description only: it may be reason enough not to download the weights."""
    folder = Path(request.source)
    if folder.is_dir():
        if request.revision is not None:
            raise ModelError(
                f"{folder} is a local directory, which has no revision {request.revision!r}",
                remedy="leave revision= out.",
            )
        return folder, None
    if folder.is_absolute() or request.source.startswith(".") or "\\" in request.source:
        raise ModelError(f"model folder {request.source} does not exist", remedy="check the path.")
    snapshot = hub.fetch(request.source, request.revision, offline=request.offline, with_weights=False)
    return snapshot.folder, snapshot.commit


def _read(path: Path, *, required: bool) -> dict[str, Any]:
    if not path.is_file():
        if required:
            raise ModelError(
                f"{path.parent} has no {path.name}, so it is not a Hugging Face model",
                remedy='give a folder of save_pretrained(), or weights="random" with config={"model_type": ...}.',
            )
        return {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelError(f"{path} cannot be read as JSON ({error})", remedy="download the model again.") from error
    if not isinstance(document, dict):
        raise ModelError(f"{path} is not a JSON object", remedy="download the model again.")
    return document


def _check_description(folder: Path, description: dict[str, Any]) -> None:
    if "quantization_config" in description:
        raise ModelError(
            f"the weights in {folder} are quantized already ({CONFIG} has quantization_config)",
            remedy="export the float model and quantize it with a recipe.",
        )
    if (folder / "adapter_config.json").exists():
        raise ModelError(
            f"{folder} holds an adapter, which would load another model",
            remedy="merge it into its model and save that.",
        )


def _check_weights(folder: Path) -> None:
    if (folder / SAFETENSORS).is_file():
        return
    if (folder / SAFETENSORS_INDEX).is_file():
        _check_shards(folder)
        return
    pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickles:
        raise ModelError(
            f"{folder} has its weights only in {pickles[0]}, and such a file can run code when it is read",
            remedy=_TO_SAFETENSORS,
        )
    raise ModelError(f"{folder} has no {SAFETENSORS}", remedy="put the weights beside config.json.")


def _check_shards(folder: Path) -> None:
    """An index is a list of file names that somebody else wrote: safetensors in this very folder, or refused."""
    shards = _read(folder / SAFETENSORS_INDEX, required=True).get("weight_map")
    if not isinstance(shards, dict) or not shards:
        raise ModelError(f"{folder / SAFETENSORS_INDEX} names no weights", remedy="download the model again.")
    for shard in sorted({str(name) for name in shards.values()}):
        if Path(shard).name != shard or "\\" in shard or not shard.endswith(".safetensors"):
            raise ModelError(
                f"{folder / SAFETENSORS_INDEX} points at {shard!r}, which is not a safetensors file of its folder",
                remedy="do not use this model.",
            )
        if not (folder / shard).is_file():
            raise ModelError(f"{folder} lacks {shard}, a part of its weights", remedy="download the model again.")
