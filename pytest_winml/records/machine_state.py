"""How the machine was just before or after a timed session."""

from __future__ import annotations

from typing import Literal

from pytest_winml.records.base import Record


class MachineState(Record, frozen=True, kw_only=True):
    """At one moment. None is what the machine does not tell.

    `foreign_cpu_share` is the part of all cores' time that went to processes other than ours since the reading before;
    `foreign_on_device` are the names of other processes seen on the device that is timed.
    """

    power_source: Literal["mains", "battery"] | None = None
    power_mode: str | None = None
    foreign_cpu_share: float | None = None
    foreign_on_device: tuple[str, ...] = ()
