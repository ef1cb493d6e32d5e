"""What a target gets when nobody says otherwise, and what it must not get: the `auto` policy as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from pytest_winml.errors import BuildError, UsageProblem, unknown_name
from pytest_winml.records.base import Record
from pytest_winml.records.recipe import PRECISIONS
from pytest_winml.records.target import EP_BY_NAME, Target

if TYPE_CHECKING:
    from pytest_winml.records.stages import QuantizeRequest

# The model goes to the EP in float, and what the EP makes of it is the EP's own decision.
LEFT_TO_EP = "ep"
QDQ_PRECISIONS = ("w8a8", "w8a16")
# What learns its ranges from samples; the other precisions need no calibration inputs.
CALIBRATED_PRECISIONS = QDQ_PRECISIONS

Family = Literal["qnn", "generic"]

_GPU_AND_QDQ = (
    "QNN's GPU backend does not run Q/DQ graphs: it fails on their layout or hangs while the session opens, and its "
    "arithmetic is float in any case"
)


class TargetPolicy(Record, frozen=True, kw_only=True):
    """`precision` is what `auto` means; `refused` gives the reason for each precision that cannot work there.

    `compiles_by_default` is what `compile="auto"` means: where contexts have been seen to open again. OpenVINO (classic
    1.24.1 on a CPU) writes contexts that it then fails to open, so there it takes `compile=True`.
    """

    precision: str
    family: Family = "generic"
    preparation: Literal["qnn"] | None = None
    has_ep_context: bool = False
    compiles_by_default: bool = False
    refused: dict[str, str] = msgspec.field(default_factory=dict)


_POLICIES: dict[str, TargetPolicy] = {
    "cpu": TargetPolicy(precision="fp32"),
    "qnn:npu": TargetPolicy(
        precision="w8a16", family="qnn", preparation="qnn", has_ep_context=True, compiles_by_default=True
    ),
    "qnn:gpu": TargetPolicy(
        precision="fp32",
        family="qnn",
        preparation="qnn",
        has_ep_context=True,
        compiles_by_default=True,
        refused=dict.fromkeys((*QDQ_PRECISIONS, "dynamic"), _GPU_AND_QDQ),
    ),
    "openvino:npu": TargetPolicy(precision="w8a16", has_ep_context=True),
    "openvino:gpu": TargetPolicy(precision="fp32", has_ep_context=True),
    "openvino:cpu": TargetPolicy(precision="fp32", has_ep_context=True),
    # It quantizes by itself; a Q/DQ graph that somebody asks for may abort its process.
    "vitisai:npu": TargetPolicy(precision=LEFT_TO_EP, has_ep_context=True),
    "dml:gpu": TargetPolicy(precision="fp32"),
}


def policy_for(target: Target) -> TargetPolicy:
    """The policy of a resolved target."""
    if target.ep is None:
        raise UsageProblem(
            f"target {target.spec!r} must be resolved to an EP before anything is built for it",
            remedy=f"name the EP: {', '.join(_specs_with(target.device))}.",
        )
    return _POLICIES[target.spec]


def resolve_precision(precision: str, target: Target) -> str:
    """The precision to build: the one asked for, the target's own for `auto`, or a `BuildError` with the reason.

    `"ep"` says that the model stays float because the EP quantizes by itself.
    """
    policy = policy_for(target)
    if precision == "auto":
        return policy.precision
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)
    if precision in policy.refused:
        allowed = [word for word in PRECISIONS if word != "auto" and word not in policy.refused]
        raise BuildError(
            f"precision {precision} cannot be used on {target.spec}: {policy.refused[precision]}",
            remedy=f"use precision='auto' ({policy.precision} there), or one of {', '.join(allowed)}.",
        )
    return precision


def as_it_applies(request: QuantizeRequest) -> QuantizeRequest:
    """The request without what its precision does not look at, so that families share what is the same for all."""
    if request.precision in CALIBRATED_PRECISIONS:
        return request
    family: Family = request.family if request.precision == "w4a16" else "generic"
    by_channel = request.per_channel and request.precision == "dynamic"
    return msgspec.structs.replace(request, family=family, method="minmax", per_channel=by_channel, feeds_path=None)


def _specs_with(device: str) -> list[str]:
    return [f"{ep.name}:{device}" for ep in EP_BY_NAME.values() if device in ep.devices and ep.name != "cpu"]
