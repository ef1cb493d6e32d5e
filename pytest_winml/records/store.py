"""What the store of build results writes down, and what it tells about itself.

Schema versions of an entry's `entry.json`:
1  first: key, ingredients, inputs, files with their digests, the stage's answer, model, time and duration.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from pytest_winml.records.base import Record

ENTRY_SCHEMA_VERSION = 1
# Of what `pytest-winml cache ... --json` prints. 1  first
CACHE_SCHEMA_VERSION = 1

DamageKind = Literal["damaged", "newer", "unreadable"]


class StageIngredients(Record, frozen=True, kw_only=True):
    """All that decides what a stage makes; equal ingredients mean an equal result, so their hash is the entry's key.

    `options` are only those that the stage heeds, and `ep_identity` is there only where the result depends on the EP:
    whatever else stood here would build the same thing twice.
    """

    stage: str
    stage_version: int
    input_digest: str
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    tools: dict[str, str] = msgspec.field(default_factory=dict)
    ep_identity: dict[str, str] | None = None


class StoredFile(Record, frozen=True, kw_only=True):
    """`name` is relative to the entry's folder, with forward slashes."""

    name: str
    sha256: str
    size_bytes: int


class EntryRecord(Record, frozen=True, kw_only=True):
    """`entry.json`. `inputs` are the keys of the entries this one was made from; `model` is whose build made it."""

    schema_version: int = ENTRY_SCHEMA_VERSION
    key: str
    model: str
    ingredients: StageIngredients
    inputs: tuple[str, ...] = ()
    answer: dict[str, Any] = msgspec.field(default_factory=dict)
    files: tuple[StoredFile, ...]
    content_digest: str
    created_at: str
    elapsed_s: float
    plugin_version: str

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


class Damage(Record, frozen=True, kw_only=True):
    """An entry that cannot be used. One that a newer version wrote, or that may not be read, is nobody's to remove."""

    key: str
    folder: str
    kind: DamageKind
    problem: str
    removed: bool = False


class EntrySummary(Record, frozen=True, kw_only=True):
    """One line of `cache ls`. `used_by` are the entries made from this one; `in_use` says a live process holds it."""

    key: str
    stage: str
    model: str
    size_bytes: int
    created_at: str
    unused_s: float
    elapsed_s: float
    inputs: tuple[str, ...] = ()
    used_by: tuple[str, ...] = ()
    in_use: bool = False


class StoreListing(Record, frozen=True, kw_only=True):
    """`leftover_bytes` are in folders of builds that did not finish, or that are under way."""

    schema_version: int = CACHE_SCHEMA_VERSION
    root: str
    entries: tuple[EntrySummary, ...]
    unusable: tuple[Damage, ...] = ()
    leftover_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self.entries)


class GcStep(Record, frozen=True, kw_only=True):
    """An entry that was removed, or was to be and is not, with the reason. What no record tells is None."""

    key: str
    reason: str
    size_bytes: int
    stage: str | None = None
    model: str | None = None


class GcReport(Record, frozen=True, kw_only=True):
    """`removed` would be removed when `dry_run`; `spared` had to go by the rules and could not."""

    schema_version: int = CACHE_SCHEMA_VERSION
    root: str
    dry_run: bool
    removed: tuple[GcStep, ...] = ()
    spared: tuple[GcStep, ...] = ()
    leftovers: int = 0
    leftover_bytes: int = 0
    kept: int = 0
    kept_bytes: int = 0

    @property
    def freed_bytes(self) -> int:
        return self.leftover_bytes + sum(step.size_bytes for step in self.removed)


class VerifyReport(Record, frozen=True, kw_only=True):
    """`checked` entries were read to the last byte. `newer` ones are another version's, which can read them."""

    schema_version: int = CACHE_SCHEMA_VERSION
    root: str
    checked: int
    checked_bytes: int
    damaged: tuple[Damage, ...] = ()
    newer: tuple[Damage, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.damaged
