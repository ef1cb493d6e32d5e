"""A baseline as a file: its name, which no input can lead out of its folder, and its text, which git can merge."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_winml.errors import UsageProblem, WinmlError
from pytest_winml.records.baseline import BASELINE_SCHEMA, Baseline

if TYPE_CHECKING:
    from collections.abc import Iterable

_FILE = re.compile(
    r"(?P<case>[a-z0-9][a-z0-9_-]*)\.(?P<identity>[0-9a-f]{8})\.(?P<when>[0-9]{8}T[0-9]{12}Z)\.[0-9a-f]{8}\.json"
)
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]*")
# Names that Windows keeps for itself, whatever follows them after a dot.
_RESERVED = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
)
# Short enough that name, case, digests and time stay below half of the 260 characters that a Windows path has.
_NAME_LETTERS = 30
_CASE_LETTERS = 40
_DIGEST_LETTERS = 8


@dataclass(frozen=True)
class FileName:
    """`detector-qnn-npu-1a2b3c4d.0badcafe.20260131T120000000000Z.5e6f7a8b.json`: case, identity, time, random."""

    text: str
    case: str
    identity: str
    when: str

    @classmethod
    def parse(cls, text: str) -> FileName | None:
        match = _FILE.fullmatch(text)
        return cls(text, match["case"], match["identity"], match["when"]) if match else None


def folder_of(name: str) -> str:
    if not name.strip() or not _is_text(name):
        raise UsageProblem(f"{name!r} is no name for a baseline", remedy="write --winml-save NAME, such as main.")
    return _slug(name, _NAME_LETTERS)


def case_slug(case_id: str) -> str:
    return _slug(case_id, _CASE_LETTERS)


def file_name(baseline: Baseline) -> str:
    """New at each call: two branches that save the same case at the same moment add two files."""
    when = baseline.created.astimezone(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    return f"{case_slug(baseline.case_id)}.{baseline.machine.digest}.{when}.{secrets.token_hex(4)}.json"


def _slug(text: str, letters: int) -> str:
    """Itself where that is a safe name on every system; else what can be read of it, and a digest of all of it."""
    if _PLAIN.fullmatch(text) and len(text) <= letters and text not in _RESERVED:
        return text
    readable = re.sub(r"[^a-z0-9]+", "-", text.lower())[:letters].strip("-")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LETTERS]
    return f"{readable or 'x'}-{digest}"


def _is_text(name: str) -> bool:
    """What came from a command line in another encoding is not, and no file could hold it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def encode(baseline: Baseline) -> bytes:
    """Keys in a fixed order, one to a line, so that a change is seen where it is; a row of numbers is one line."""
    return ("".join(_lines(msgspec.to_builtins(baseline, order="deterministic"), "")) + "\n").encode()


def _lines(value: Any, indent: str) -> Iterable[str]:
    if isinstance(value, dict) and value:
        yield "{"
        for place, (key, one) in enumerate(value.items()):
            yield f"{',' if place else ''}\n{indent}  {_flat(key)}: "
            yield from _lines(one, indent + "  ")
        yield f"\n{indent}}}"
    elif isinstance(value, list | tuple) and any(isinstance(one, dict) for one in value):
        yield "["
        for place, one in enumerate(value):
            yield f"{',' if place else ''}\n{indent}  "
            yield from [_flat(one)] if _is_row(one) else _lines(one, indent + "  ")
        yield f"\n{indent}]"
    else:
        yield _flat(value)


def _is_row(value: Any) -> bool:
    """Such as one block: a flat object in a list."""
    return isinstance(value, dict) and not any(isinstance(one, dict) for one in value.values())


def _flat(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class _Versioned(msgspec.Struct, frozen=True):
    """Of any baseline, the one field that is read whatever else a later schema holds."""

    schema_version: int


def decode(content: bytes) -> Baseline | str:
    """The baseline, or why this is none that can be used: files in a shared folder may be anything."""
    try:
        version = msgspec.json.decode(content, type=_Versioned).schema_version
        if version > BASELINE_SCHEMA:
            return f"it has schema {version}, this version reads up to {BASELINE_SCHEMA}: update pytest-winml"
        return msgspec.json.decode(content, type=Baseline)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"it is not a baseline ({error})"
    except WinmlError as error:
        return f"it is not a baseline ({error.message})"
