"""A diagnosis as lines a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.report.table import table_lines, wrap

if TYPE_CHECKING:
    from pytest_winml.records.diagnosis import Diagnosis, TargetFinding

_SHOWN_PACKAGES = ("pytest-winml", "pytest", "onnx", "numpy", "windowsml", "torch", "transformers")


def doctor_lines(diagnosis: Diagnosis, width: int) -> list[str]:
    lines = [*_machine_lines(diagnosis), ""]
    if diagnosis.problem:
        lines += wrap(f"PROBLEM: {diagnosis.problem}", width)
        lines += [line for part in (diagnosis.remedy or "").splitlines() for line in wrap(f"  {part}", width)]
        return lines
    lines += table_lines(("target", "runs", "because"), [_row(finding) for finding in diagnosis.findings], width)
    if diagnosis.runtime:
        lines += [line for note in diagnosis.runtime.notes for line in ("", *wrap(f"note: {note}", width))]
    lines += ["", _conclusion(diagnosis)]
    return lines


def _machine_lines(diagnosis: Diagnosis) -> list[str]:
    host = diagnosis.environment
    packages = (f"{name} {host.packages[name]}" for name in _SHOWN_PACKAGES if name in host.packages)
    lines = [
        f"machine   {host.os} {host.machine}, {host.cpu}",
        f"          {units.count(host.logical_cpus, 'CPU')}, {units.byte_size(host.memory_bytes)} memory",
        f"python    {host.python} with {', '.join(packages)}",
        f"runtime   {host.runtime or 'none'}",
    ]
    if diagnosis.runtime:
        lines += [
            f"EP        {library.ep} {library.version or '(version unknown)'} from {_ORIGINS[library.origin]}"
            for library in diagnosis.runtime.libraries
        ]
    return lines


_ORIGINS = {"user": "the path you gave", "wheel": "its PyPI wheel", "windowsml": "the Windows ML catalog"}


def _row(finding: TargetFinding) -> tuple[str, str, str]:
    because = finding.proof or finding.reason or ""
    if finding.remedy and finding.remedy not in because:
        because += f". To run it: {finding.remedy}" if finding.verdict == "build-only" else f". To do: {finding.remedy}"
    return finding.target, finding.verdict, " ".join(because.split())


def _conclusion(diagnosis: Diagnosis) -> str:
    broken = [finding.target for finding in diagnosis.findings if finding.verdict == "broken"]
    if broken:
        return f"BROKEN: {', '.join(broken)}. Everything else that this machine promises works."
    return "Healthy: every target that this machine promises opened and ran a model."
