"""What `pytest-winml doctor` finds."""

from __future__ import annotations

from typing import Literal

from pytest_winml.records.base import Record
from pytest_winml.records.machine import Environment, Runtime

# 1  first
DIAGNOSIS_SCHEMA_VERSION = 1

Verdict = Literal["native", "emulated", "build-only", "broken"]


class TargetFinding(Record, frozen=True, kw_only=True):
    """`proof` is what a model did there; `reason` and `remedy` say why it cannot and what would change that."""

    target: str
    verdict: Verdict
    proof: str | None = None
    reason: str | None = None
    remedy: str | None = None


class Diagnosis(Record, frozen=True, kw_only=True):
    schema_version: int = DIAGNOSIS_SCHEMA_VERSION
    environment: Environment
    runtime: Runtime | None
    problem: str | None
    remedy: str | None
    findings: tuple[TargetFinding, ...]

    @property
    def healthy(self) -> bool:
        """Every target that hardware and packages promise opens and runs a model."""
        return self.problem is None and not any(finding.verdict == "broken" for finding in self.findings)
