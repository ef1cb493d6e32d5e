"""A trace as JSON: what is not known stays as null, and what is no finite number becomes null and is named."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import msgspec

from pytest_winml.errors import UsageProblem
from pytest_winml.records.traced import TRACE_SCHEMA, TraceRecord

T = TypeVar("T", bound=TraceRecord)
_NOT_FINITE = "not a finite number, and left out: "


def encoded(trace: TraceRecord) -> str:
    places: list[str] = []
    content = _finite(msgspec.to_builtins(trace), "", places)
    _drop_samples_without_a_time(content)
    content["notes"] += [f"{_NOT_FINITE}{place}" for place in places]
    return msgspec.json.encode(content).decode()


def decoded(text: str | bytes, kind: type[T]) -> T:
    try:
        content = msgspec.json.decode(text)
        version = content.get("schema_version") if isinstance(content, dict) else None
        if isinstance(version, int) and version > TRACE_SCHEMA:
            raise UsageProblem(
                f"a trace of schema {version}, and this version reads up to {TRACE_SCHEMA}",
                remedy="install a newer pytest-winml.",
            )
        return msgspec.convert(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageProblem(f"this is no trace: {error}") from None


def _finite(value: Any, place: str, places: list[str]) -> Any:
    match value:
        case float() if not math.isfinite(value):
            places.append(f"{place} ({value})")
            return None
        case dict():
            return {key: _finite(one, f"{place}.{key}" if place else key, places) for key, one in value.items()}
        case list() | tuple():
            return [_finite(one, f"{place}[{number}]", places) for number, one in enumerate(value)]
        case _:
            return value


def _drop_samples_without_a_time(content: dict[str, Any]) -> None:
    hardware = content["hardware"]
    if hardware is not None:
        hardware["samples"] = [one for one in hardware["samples"] if one["at_us"] is not None]
