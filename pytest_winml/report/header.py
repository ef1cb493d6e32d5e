"""The header: which runtime, and how each target of this run will be met."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml.records.target import SOC_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.records.machine import Availability
    from pytest_winml.records.target import Target


def header_lines(runtime: str, answers: Sequence[tuple[Target, Availability]]) -> list[str]:
    return [f"winml: {runtime}", *(f"winml: {target_line(target, one)}" for target, one in answers)]


def target_line(target: Target, one: Availability) -> str:
    """`qnn:npu native (EP 2.7.0)`, or how else it is met. One line: a log's tail is for the test that fails."""
    asked = f"{target.id} ({target.spec})" if target.name else target.id
    name = asked if one.resolved in (target.spec, None) else f"{asked} → {one.resolved}"
    version = f" {one.ep_version}" if one.ep_version else ""
    if one.mode == "emulated":
        product = SOC_BY_NAME[one.soc].product if one.soc in SOC_BY_NAME else "an unnamed SoC"
        return f"{name} EMULATED on this host (HTP emulator{version}, {product}): its times mean nothing"
    if one.mode == "native":
        return f"{name} native" + (f" (EP{version})" if version else "")
    reason = next(iter(one.reason.splitlines()), "no reason given")
    return f"{name} {one.mode}: {reason}"
