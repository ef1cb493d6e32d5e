"""What a measurement may cost at most: limits against a baseline (`5%`) or by themselves (`<8ms`)."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Literal

import msgspec

from pytest_winml.errors import UsageProblem, unknown_name
from pytest_winml.records.base import Record
from pytest_winml.records.latency import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Metric = Literal["latency", "p90", "p99", "size", "memory"]
Status = Literal["passed", "failed", "not applied"]

_TIME_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3}
_BYTES = {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1024.0, "mib": 1024.0**2, "gib": 1024.0**3}
_UNITS: Mapping[str, Mapping[str, float]] = {
    "latency": _TIME_MS,
    "p90": _TIME_MS,
    "p99": _TIME_MS,
    "size": _BYTES,
    "memory": _BYTES,
}
METRICS = tuple(_UNITS)
_RELATIVE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")
_ABSOLUTE = re.compile(r"\s*<\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zµ]+)\s*", re.IGNORECASE)
_WIDEST = 10.0  # a gate of more than 1000 % is a slip of the pen


class Limit(Record, frozen=True, kw_only=True):
    """`relative` is a share of one that must not be lost; `absolute` is in ms or bytes. One of the two is set."""

    metric: str
    text: str
    relative: float | None = None
    absolute: float | None = None


class Gate(Record, frozen=True, kw_only=True):
    limits: tuple[Limit, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.limits)

    def overridden_by(self, nearer: Gate) -> Gate:
        """The nearer one wins, metric by metric."""
        taken = {limit.metric for limit in nearer.limits}
        return Gate(limits=(*nearer.limits, *(limit for limit in self.limits if limit.metric not in taken)))


class GateResult(Record, frozen=True, kw_only=True):
    """One limit and what came of it, in a sentence. Not applied: there was nothing to judge it by."""

    limit: Limit
    status: Status
    sentence: str
    verdict: Verdict | None = None


def parse_limits(given: Iterable[tuple[str, object]], where: str) -> Gate:
    """Raises `UsageProblem`, naming `where` the limit was written."""
    limits: dict[str, Limit] = {}
    for metric, value in given:
        name = metric.strip().replace("-", "_")
        if name not in METRICS:
            raise unknown_name(f"limit in {where}", metric, METRICS)
        if name in limits:
            raise UsageProblem(f"{where} limits {name} twice")
        limits[name] = _parse(name, value, where)
    return Gate(limits=tuple(limits.values()))


def parse_option(text: str) -> Gate:
    """`latency=5%,p99=10%`."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not pairs or any(not value.strip() for _, _, value in pairs):
        raise UsageProblem(f"--winml-gate {text!r} is not METRIC=LIMIT", remedy='write "latency=5%,p99=10%".')
    return parse_limits([(name, value) for name, _, value in pairs], "--winml-gate")


def _parse(metric: str, value: object, where: str) -> Limit:
    text = str(value).strip() if isinstance(value, str) else ""
    if match := _RELATIVE.fullmatch(text):
        share = float(match[1]) / 100
        if 0 < share <= _WIDEST:
            return Limit(metric=metric, text=text, relative=share)
    units = _UNITS[metric]
    if (match := _ABSOLUTE.fullmatch(text)) and match[2].lower() in units:
        number = float(match[1]) * units[match[2].lower()]
        if 0 < number < math.inf:
            return Limit(metric=metric, text=text, absolute=number)
    example = "<8ms" if units is _TIME_MS else "<20MB"
    raise UsageProblem(
        f"{where}: {metric}={value!r} is no limit", remedy=f"write {metric}='5%' or {metric}='{example}'."
    )


def with_status(result: GateResult, status: Status) -> GateResult:
    return msgspec.structs.replace(result, status=status)
