"""Fetching a model from the hub: its description and its safetensors, nothing that could run."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_winml.errors import InfrastructureError, ModelError
from pytest_winml.pipeline.export.failures import one_line, require

CONFIG, PREPROCESSOR = "config.json", "preprocessor_config.json"
SAFETENSORS, SAFETENSORS_INDEX = "model.safetensors", "model.safetensors.index.json"
# A pattern without a leading * matches at the root of a repository only.
_DESCRIPTION = (CONFIG, PREPROCESSOR, "generation_config.json")
_WEIGHTS = (SAFETENSORS, SAFETENSORS_INDEX, "model-*.safetensors")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ANSWER_S = 30.0  # a hub that is silent for longer cannot be reached


@dataclass(frozen=True)
class Snapshot:
    folder: Path
    commit: str


def fetch(model_id: str, revision: str | None, *, offline: bool, with_weights: bool) -> Snapshot:
    """The folder of the hub's cache that holds the model. No pickles and no Python files are ever downloaded."""
    require("huggingface_hub")
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    offline = offline or bool(huggingface_hub.constants.HF_HUB_OFFLINE)
    try:
        snapshot = _cached(model_id, revision) if offline else _online(model_id, revision, with_weights=with_weights)
    except HFValidationError as error:
        raise ModelError(
            f"{model_id!r} is neither a folder that exists nor a hub id",
            remedy="write owner/name, or an absolute path.",
        ) from error
    if with_weights and not _has_weights(snapshot.folder):
        kind, where, remedy = (
            (InfrastructureError, "the local cache", "run once online.")
            if offline
            else (ModelError, "the hub", "use a revision with safetensors: pickles are never read.")
        )
        raise kind(f"the safetensors of {model_id} ({snapshot.commit[:12]}) are not in {where}", remedy=remedy)
    return snapshot


def _has_weights(folder: Path) -> bool:
    if (folder / SAFETENSORS).is_file():
        return True
    try:
        index = json.loads((folder / SAFETENSORS_INDEX).read_text(encoding="utf-8"))
        return all((folder / shard).is_file() for shard in index["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _cached(model_id: str, revision: str | None) -> Snapshot:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(model_id, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError as error:
        at = f" at revision {revision}" if revision else ""
        raise InfrastructureError(
            f"{model_id}{at} is not in the local cache of the hub, and the network may not be used",
            remedy="run once online, copy the cache here, or give a local directory.",
        ) from error
    return Snapshot(folder, folder.name)


def _online(model_id: str, revision: str | None, *, with_weights: bool) -> Snapshot:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    if revision and _COMMIT.fullmatch(revision) and (known := _complete(model_id, revision, with_weights=with_weights)):
        return known  # a commit never changes, so nobody needs to be asked
    try:
        commit = _commit_of(model_id, revision)
        patterns = [*_DESCRIPTION, *(_WEIGHTS if with_weights else ())]
        folder = snapshot_download(model_id, revision=commit, allow_patterns=patterns)
    except GatedRepoError as error:
        raise InfrastructureError(
            f"the hub does not let this machine read {model_id} ({one_line(error)})",
            remedy="accept the model's terms on the hub and log in with huggingface-cli.",
        ) from error
    except RevisionNotFoundError as error:
        raise ModelError(f"{model_id} has no revision {revision!r} on the hub", remedy="check revision=.") from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"the hub has no model {model_id}, or it is private",
            remedy="check the id; for a local directory, give a path that exists.",
        ) from error
    except OSError as error:  # connection, timeout, TLS, HTTP 5xx, full disk: none of it is the model's fault
        raise InfrastructureError(
            f"{model_id} cannot be fetched from the hub ({one_line(error)})",
            remedy="check the network, or work from the cache with HF_HUB_OFFLINE=1, or give a local directory.",
        ) from error
    return Snapshot(Path(folder), commit)


def _commit_of(model_id: str, revision: str | None) -> str:
    from huggingface_hub import HfApi

    info: Any = HfApi().repo_info(model_id, revision=revision, timeout=_ANSWER_S)
    return str(info.sha)


def _complete(model_id: str, commit: str, *, with_weights: bool) -> Snapshot | None:
    try:
        snapshot = _cached(model_id, commit)
    except InfrastructureError:
        return None
    complete = _has_weights(snapshot.folder) if with_weights else (snapshot.folder / CONFIG).is_file()
    return snapshot if complete else None
