"""From figures and verdicts to gates: passed, failed, or not applied for want of something to judge by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.records.gate import GateResult

if TYPE_CHECKING:
    from pytest_winml.records.gate import Limit, Status
    from pytest_winml.records.latency import Objective, Verdict
    from pytest_winml.records.measurement import Measured

OBJECTIVES: dict[str, Objective] = {"latency": "p50", "p90": "p90", "p99": "p99"}
_ROUNDING = 1e-12
_STATUS_OF: dict[str, Status] = {
    "REGRESSED": "failed",
    "IMPROVED": "passed",
    "EQUIVALENT": "passed",
    "INCONCLUSIVE": "not applied",
    "NO_BASELINE": "not applied",
    "NOT_COMPARABLE": "not applied",
}


def by_verdict(limit: Limit, verdict: Verdict, against: str) -> GateResult:
    said = " ".join(verdict.reasons)
    words = [f"{limit.metric} {limit.text}: {verdict.outcome}"]
    if verdict.effect is not None:
        words.append(f"{units.change(verdict.effect)}{_interval(verdict)} against {against}")
        words.append(f"{verdict.route}, {units.count(verdict.sessions, 'session')}")
    sentence = ", ".join(words) + (f". {said}" if said else "")
    return GateResult(limit=limit, status=_STATUS_OF[verdict.outcome], sentence=sentence, verdict=verdict)


def _interval(verdict: Verdict) -> str:
    if verdict.interval is None:
        return ""
    low, high = verdict.interval
    return f" (90 % interval {units.signed_percent(low)} to {units.signed_percent(high)})"


def by_time(limit: Limit, measured: Measured) -> GateResult:
    """A limit in milliseconds, held against the quantile of all samples."""
    latency = measured.latency
    found = {"latency": latency.p50_ms, "p90": latency.p90_ms, "p99": latency.p99_ms}[limit.metric]
    if found is None:
        samples = units.count(len(latency.samples.times_ns), "sample")
        return _not_applied(limit, f"{samples} are too few for a {limit.metric}")
    return _by_figure(limit, found, units.milliseconds(found))


def by_bytes(limit: Limit, found: int | None, before: int | None) -> GateResult:
    """A limit in bytes, or a share: growth by that much must not pass, as with a time."""
    if found is None:
        return _not_applied(limit, "this machine does not tell it")
    if limit.absolute is not None:
        return _by_figure(limit, found, units.byte_size(found))
    if before is None:
        return _not_applied(limit, "NO_BASELINE")
    growth = found / before - 1 if before else float(found > 0)
    status: Status = "failed" if growth >= (limit.relative or 0.0) - _ROUNDING else "passed"
    sizes = f"{units.byte_size(found)} against {units.byte_size(before)} of the baseline"
    return GateResult(
        limit=limit, status=status, sentence=f"{limit.metric} {limit.text}: {units.signed_percent(growth)}, {sizes}"
    )


def not_judged(limit: Limit, why: str) -> GateResult:
    return _not_applied(limit, why)


def _by_figure(limit: Limit, found: float, shown: str) -> GateResult:
    status: Status = "passed" if found < (limit.absolute or 0.0) else "failed"
    return GateResult(limit=limit, status=status, sentence=f"{limit.metric} {limit.text}: {shown}")


def _not_applied(limit: Limit, why: str) -> GateResult:
    return GateResult(limit=limit, status="not applied", sentence=f"{limit.metric} {limit.text}: {why}")
