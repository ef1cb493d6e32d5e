"""One subject, timed beside the canary in fresh processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.measure.ordering import Order
from pytest_winml.measure.sessions import BUDGET_OVER
from pytest_winml.records.measurement import CANARY, TARGET, Measured, Memory
from pytest_winml.stats.paired import draw_session

if TYPE_CHECKING:
    from pytest_winml.measure.ordering import Subject
    from pytest_winml.measure.protocols import Protocol
    from pytest_winml.measure.sessions import Sessions
    from pytest_winml.session.timing_messages import ArmLoad, TimedSession

_SOLO_BLOCKS = 4
_NS_PER_MS = 1e6


def measure_alone(subject: Subject, sessions: Sessions) -> tuple[TimedSession, Memory]:
    """A process that holds nothing else: what it takes to open, to run once, and of memory."""
    alone = sessions.run("alone", Order(arms=((TARGET, subject),), blocks=((TARGET, 0),) * _SOLO_BLOCKS))
    load = alone.arms[0]
    memory = Memory(
        artifact_bytes=subject.size_bytes, load_bytes=load.load_memory_bytes, peak_bytes=load.peak_memory_bytes
    )
    return alone, memory


def measure(subject: Subject, canary: Subject, protocol: Protocol, count: int, sessions: Sessions) -> Measured:
    """One session alone for what a process takes, then `count` sessions in blocks that alternate with the canary."""
    alone, memory = measure_alone(subject, sessions)
    timed: list[TimedSession] = []
    for number in range(1, count + 1):
        order = _order(number, subject, canary, protocol, sessions.seed)
        session = sessions.next(f"session {number}", order) if timed else sessions.run(f"session {number}", order)
        if session is None:
            break
        timed.append(session)
    load = alone.arms[0]
    steady = all(arm.warm_up_converged for session in (alone, *timed) for arm in session.arms if arm.name == TARGET)
    return Measured(
        protocol=protocol.name,
        artifact_key=subject.key,
        canary_key=canary.key,
        sessions=tuple(session.blocks for session in timed),
        memory=memory,
        create_ms=load.create_ns / _NS_PER_MS,
        first_run_ms=load.first_run_ns / _NS_PER_MS,
        steady=steady,
        device_s=sessions.device_s,
        notes=(*_notes(protocol, load, steady=steady, complete=len(timed) == count), *sessions.notes),
    )


def _order(number: int, subject: Subject, canary: Subject, protocol: Protocol, seed: int) -> Order:
    import numpy as np

    plan = draw_session(np.random.default_rng((seed, number)), number, protocol.quads, 0, (CANARY, TARGET))
    subjects = {CANARY: canary, TARGET: subject}
    return Order(arms=tuple((arm, subjects[arm]) for arm in plan.create), blocks=plan.blocks)


def _notes(protocol: Protocol, load: ArmLoad, *, steady: bool, complete: bool) -> list[str]:
    notes = []
    if not protocol.judges:
        notes.append(f"{protocol.name} protocol: a screen, not a measurement to judge by.")
    if not complete:
        notes.append(f"fewer sessions than the protocol asks for: {BUDGET_OVER}")
    if not steady:
        notes.append("times were still falling or rising when the warm-up ended.")
    if load.placement.fallback_nodes:
        nodes = units.count(len(load.placement.fallback_nodes), "node")
        notes.append(f"{nodes} of the graph ran on the CPU, and that is in the times.")
    return notes
