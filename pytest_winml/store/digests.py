"""Keys and digests: sha256 over canonical JSON, so that the order of keys and the spaces between them do not matter."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_winml.errors import UsageProblem
from pytest_winml.records.store import ENTRY_SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_winml.records.store import StageIngredients, StoredFile


def stage_key(ingredients: StageIngredients) -> str:
    """The name of what these ingredients make.

    The schema of the entry is an ingredient as well: two versions of the plugin that share a store and write different
    entries then never meet under one key.
    """
    try:
        return canonical_digest({"schema": ENTRY_SCHEMA_VERSION, **msgspec.to_builtins(ingredients)})
    except (TypeError, ValueError) as error:  # UnicodeEncodeError is a ValueError
        raise UsageProblem(
            f"the options of stage {ingredients.stage!r} cannot be written as JSON ({error})",
            remedy="use text, finite numbers, booleans, None, lists and tables of these.",
        ) from error


def content_digest(files: Iterable[StoredFile]) -> str:
    """Of all files of a result: their names and contents, not their order, times or modes."""
    return canonical_digest(sorted([file.name, file.sha256] for file in files))


def canonical_digest(content: Any) -> str:
    """ValueError for what JSON cannot say: NaN, infinities, half a surrogate pair."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
