"""How much is measured: the three protocols, and what each kind of device needs besides. All of it is data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml.errors import unknown_name
from pytest_winml.records.base import Record
from pytest_winml.records.measurement import ProtocolName

if TYPE_CHECKING:
    from pytest_winml.records.target import Target


class Protocol(Record, frozen=True, kw_only=True):
    """`sessions` are fresh processes of one measurement, `saved_sessions` of one that becomes a baseline.

    `most_sessions` bounds a comparison. A protocol that does not judge screens: one session, no verdict, no gate.
    """

    name: ProtocolName
    sessions: int
    saved_sessions: int
    most_sessions: int
    quads: int
    judges: bool = True


PROTOCOLS: dict[str, Protocol] = {
    "quick": Protocol(name="quick", sessions=1, saved_sessions=1, most_sessions=1, quads=4, judges=False),
    "standard": Protocol(name="standard", sessions=4, saved_sessions=12, most_sessions=16, quads=4),
    "rigorous": Protocol(name="rigorous", sessions=8, saved_sessions=16, most_sessions=16, quads=8),
}


class DeviceHabits(Record, frozen=True, kw_only=True):
    """What is particular to a device when it is timed.

    `cool_down_s` is the rest between creating the sessions and the warm-up; `warm_up_s` the least time that steps of
    clock and voltage take to settle.
    """

    cool_down_s: float = 0.0
    warm_up_s: float = 1.0
    longest_warm_up_s: float = 5.0


_BY_DEVICE: dict[str, DeviceHabits] = {
    "cpu": DeviceHabits(warm_up_s=0.5, longest_warm_up_s=3.0),
    "gpu": DeviceHabits(cool_down_s=1.0),
    "npu": DeviceHabits(cool_down_s=2.0),
}
_BY_TARGET: dict[str, DeviceHabits] = {
    "dml:gpu": DeviceHabits(cool_down_s=1.0, warm_up_s=1.5),
}


def protocol_named(name: str) -> Protocol:
    if name not in PROTOCOLS:
        raise unknown_name("--winml-protocol", name, PROTOCOLS)
    return PROTOCOLS[name]


def habits_of(target: Target) -> DeviceHabits:
    return _BY_TARGET.get(target.spec) or _BY_DEVICE.get(target.device) or DeviceHabits()
