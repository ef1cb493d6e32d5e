"""Trying every target with an embedded model, and saying what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.data.digits import held_out, model_path
from pytest_winml.errors import WinmlError
from pytest_winml.providers.distributions import runtime_install
from pytest_winml.providers.environment import read_environment
from pytest_winml.records.diagnosis import Diagnosis, TargetFinding
from pytest_winml.records.target import ALL_TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_winml.records.machine import Runtime
    from pytest_winml.session.machine import Machine

PROBE_MODEL = "digits-cnn"


def examine(machine: Machine, on_target: Callable[[str], None]) -> Diagnosis:
    """`on_target` hears each target before it is tried, since a first try can take a while."""
    install = runtime_install()
    runtime, problem, remedy = _load(machine) if not install.problem else (None, install.problem, install.remedy)
    findings = []
    if problem is None:
        for spec in ALL_TARGETS:
            on_target(spec)
            findings.append(_try(machine, Target(spec)))
    return Diagnosis(
        environment=read_environment(), runtime=runtime, problem=problem, remedy=remedy, findings=tuple(findings)
    )


def _load(machine: Machine) -> tuple[Runtime | None, str | None, str | None]:
    try:
        return machine.runtime(), None, None
    except WinmlError as error:
        return None, str(error), "install the runtime again."


def _try(machine: Machine, target: Target) -> TargetFinding:
    spec = target.spec
    answer = machine.availability(target)
    if answer.mode == "absent":
        return TargetFinding(target=spec, verdict="build-only", reason=answer.reason, remedy=answer.remedy or None)
    if answer.mode == "broken":
        return TargetFinding(target=spec, verdict="broken", reason=answer.reason, remedy=answer.remedy or None)
    try:
        with machine.open(target, model_path(PROBE_MODEL, "w8a16" if target.device == "npu" else "fp32")) as session:
            session.require_target().run({"image": held_out().images[:1]})
            on_target, total = len(session.placement.target_nodes), session.placement.total_nodes
    except WinmlError as error:
        return TargetFinding(target=spec, verdict="broken", reason=str(error), remedy=error.remedy)
    proof = f"ran {PROBE_MODEL}, {on_target} of {units.count(total, 'node')} on the target"
    return TargetFinding(target=spec, verdict="native" if answer.mode == "native" else "emulated", proof=proof)
