"""Which machine a number belongs to, and whether two numbers may be compared at all."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

import msgspec

from pytest_winml.errors import UsageProblem, unknown_name
from pytest_winml.records.base import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

FieldKind = Literal["identity", "context", "noise"]
_DIGEST_LETTERS = 8


class MachineIdentity(Record, frozen=True, kw_only=True):
    """A machine as one target sees it. None is what it does not tell, and never a guess.

    `soc` is the SoC that the EP was told or found; `architecture` is the process's, since
    x64 code runs on Arm devices too; `host` is a digest, for names of machines stay where they are.
    """

    cpu: str | None = None
    soc: str | None = None
    architecture: str | None = None
    logical_cpus: int | None = None
    device: str | None = None
    mode: Literal["native", "emulated"] | None = None
    driver_version: str | None = None
    ep: str | None = None
    ep_version: str | None = None
    runtime_package: str | None = None
    runtime_version: str | None = None
    os_build: str | None = None
    power_mode: str | None = None
    power_source: str | None = None
    python: str | None = None
    plugin_version: str | None = None
    host: str | None = None
    memory_bytes: int | None = None
    battery_percent: float | None = None
    cpu_clock_mhz: float | None = None
    free_memory_bytes: int | None = None

    @property
    def digest(self) -> str:
        """Short, over identity fields only: equal for machines whose numbers may be compared."""
        values = {name: getattr(self, name) for name in IDENTITY_FIELDS}
        return hashlib.sha256(msgspec.json.encode(values, order="sorted")).hexdigest()[:_DIGEST_LETTERS]


# identity: where two differ, their times are not comparable. context: worth showing beside a difference in time.
# noise: differs from minute to minute on one machine.
FIELD_KINDS: dict[str, FieldKind] = {
    "cpu": "identity",
    "soc": "identity",
    "architecture": "identity",
    "logical_cpus": "identity",
    "device": "identity",
    "mode": "identity",
    "driver_version": "identity",
    "ep": "identity",
    "ep_version": "identity",
    "runtime_package": "identity",
    "runtime_version": "identity",
    "os_build": "identity",
    "power_mode": "identity",
    "power_source": "identity",
    "python": "context",
    "plugin_version": "context",
    "host": "context",
    "memory_bytes": "context",
    "battery_percent": "noise",
    "cpu_clock_mhz": "noise",
    "free_memory_bytes": "noise",
}
IDENTITY_FIELDS = tuple(name for name, kind in FIELD_KINDS.items() if kind == "identity")


class FieldDifference(Record, frozen=True, kw_only=True):
    """One field of two machines. `ignored`: the user said that it does not matter, and that is on record."""

    name: str
    kind: FieldKind
    before: str | float | None
    after: str | float | None
    ignored: bool = False

    @property
    def forbids_comparing(self) -> bool:
        return self.kind == "identity" and not self.ignored

    def __str__(self) -> str:
        return f"{self.name}: {_shown(self.before)} before, {_shown(self.after)} now"


def differences(
    before: MachineIdentity, after: MachineIdentity, ignore: Iterable[str] = ()
) -> tuple[FieldDifference, ...]:
    """Every field that differs, of any kind, in the order of the fields. What only one side knows differs too."""
    ignored = ignorable(ignore)
    return tuple(
        FieldDifference(
            name=name, kind=kind, before=getattr(before, name), after=getattr(after, name), ignored=name in ignored
        )
        for name, kind in FIELD_KINDS.items()
        if getattr(before, name) != getattr(after, name)
    )


def comparable(found: Iterable[FieldDifference]) -> bool:
    return not any(difference.forbids_comparing for difference in found)


def unknown_to_both(before: MachineIdentity, after: MachineIdentity) -> tuple[str, ...]:
    """Identity fields that neither machine tells: they count as equal, and whoever compares says so."""
    return tuple(name for name in IDENTITY_FIELDS if getattr(before, name) is None is getattr(after, name))


def ignorable(names: Iterable[str]) -> frozenset[str]:
    """The names, `-` and `_` being the same; one that no identity field has is what the user cannot have meant."""
    found = set()
    for given in names:
        name = given.strip().lower().replace("-", "_")
        if name in IDENTITY_FIELDS:
            found.add(name)
        elif name in FIELD_KINDS:
            raise UsageProblem(
                f"the machine's {name!r} never makes two machines incomparable", remedy="leave it out, nothing changes."
            )
        else:
            raise unknown_name("identity field", given, IDENTITY_FIELDS)
    return frozenset(found)


def _shown(value: str | float | None) -> str:
    return "unknown" if value is None else str(value)
