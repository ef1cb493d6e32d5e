"""The header: which runtime, and how each target of this run will be met."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_winml.records.target import SOC_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.records.machine import Availability


def header_lines(runtime: str, availabilities: Sequence[Availability]) -> list[str]:
    return [f"winml: {runtime}", *(f"winml: {target_line(one)}" for one in availabilities)]


def target_line(one: Availability) -> str:
    """`qnn:npu native (EP 2.7.0)`, or how else it is met. One line: a log's tail is for the test that fails."""
    name = one.target if one.resolved in (one.target, None) else f"{one.target} → {one.resolved}"
    version = f" {one.ep_version}" if one.ep_version else ""
    if one.mode == "emulated":
        product = SOC_BY_NAME[one.soc].product if one.soc in SOC_BY_NAME else "an unnamed SoC"
        return f"{name} EMULATED on this host (HTP emulator{version}, {product}): its times mean nothing"
    if one.mode == "native":
        return f"{name} native" + (f" (EP{version})" if version else "")
    reason = next(iter(one.reason.splitlines()), "no reason given")
    return f"{name} {one.mode}: {reason}"
