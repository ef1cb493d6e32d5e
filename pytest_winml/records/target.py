"""Where a model is to run: an execution provider and one of its devices."""

from __future__ import annotations

from typing import Literal

import msgspec

from pytest_winml.errors import UsageProblem, unknown_name

Device = Literal["cpu", "gpu", "npu"]
DEVICES: tuple[Device, ...] = ("cpu", "gpu", "npu")


class ExecutionProvider(msgspec.Struct, frozen=True):
    """An EP by its short name, with the name ORT knows it by and the devices it can drive, preferred first."""

    name: str
    provider: str
    devices: tuple[Device, ...]


EXECUTION_PROVIDERS = (
    ExecutionProvider("cpu", "CPUExecutionProvider", ("cpu",)),
    ExecutionProvider("qnn", "QNNExecutionProvider", ("npu", "gpu")),
    ExecutionProvider("openvino", "OpenVINOExecutionProvider", ("npu", "gpu", "cpu")),
    ExecutionProvider("vitisai", "VitisAIExecutionProvider", ("npu",)),
    ExecutionProvider("dml", "DmlExecutionProvider", ("gpu",)),
)
EP_BY_NAME = {ep.name: ep for ep in EXECUTION_PROVIDERS}
_ALIASES = {
    **{ep.name: ep.name for ep in EXECUTION_PROVIDERS},
    **{ep.provider.lower(): ep.name for ep in EXECUTION_PROVIDERS},
    "directml": "dml",
    "vitis": "vitisai",
    "ov": "openvino",
}

# A device without an EP resolves in this order, among what is usable; never to the CPU.
PREFERENCE: dict[str, tuple[str, ...]] = {
    "npu": ("qnn:npu", "openvino:npu", "vitisai:npu"),
    "gpu": ("openvino:gpu", "qnn:gpu", "dml:gpu"),
}
ALL_TARGETS: tuple[str, ...] = (
    "cpu",
    *(f"{ep.name}:{device}" for ep in EXECUTION_PROVIDERS if ep.name != "cpu" for device in ep.devices),
)


class Soc(msgspec.Struct, frozen=True):
    """A Qualcomm SoC as QNN numbers it (`QNN_SOC_MODEL_*`); one that is missing here can be given by its options."""

    name: str
    soc_model: int
    htp_arch: int
    product: str


SOCS = (
    Soc("sc8280xp", 37, 68, "Snapdragon 8cx Gen 3"),
    Soc("sm8550", 43, 73, "Snapdragon 8 Gen 2"),
    Soc("sm8650", 57, 75, "Snapdragon 8 Gen 3"),
    Soc("sc8380xp", 60, 73, "Snapdragon X Elite"),
    Soc("sm8750", 69, 79, "Snapdragon 8 Elite"),
    Soc("sm8850", 87, 81, "Snapdragon 8 Elite Gen 5"),
)
SOC_BY_NAME = {soc.name: soc for soc in SOCS}
DEFAULT_SOC = "sc8380xp"


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`Target("qnn:npu", soc="sc8380xp", options={"htp_performance_mode": "burst"})`, or just the string.

    `options` are checked against what the EP is known to understand; `unchecked_options` are passed as they are, and
    the report says so.
    """

    spec: str
    soc: str | None = msgspec.field(default=None)
    options: dict[str, str] = msgspec.field(default_factory=dict)
    unchecked_options: dict[str, str] = msgspec.field(default_factory=dict)
    name: str | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "spec", canonical_spec(self.spec))
        if self.soc is not None:
            msgspec.structs.force_setattr(self, "soc", self.soc.lower())
            self._check_soc(self.soc.lower())
        _check_text_values(self.spec, {**self.options, **self.unchecked_options})
        if both := sorted(self.options.keys() & self.unchecked_options.keys()):
            raise UsageProblem(f"target {self.spec!r}: option {both[0]!r} is given checked and unchecked")

    def _check_soc(self, soc: str) -> None:
        if self.ep != "qnn":
            raise UsageProblem(f"target {self.spec!r} takes no soc=: only qnn targets have one")
        if soc not in SOC_BY_NAME:
            raise unknown_name("SoC", soc, SOC_BY_NAME)

    @property
    def ep(self) -> str | None:
        """The EP's short name; None for a bare device such as `npu`, which is resolved on the machine."""
        head, _, tail = self.spec.partition(":")
        return head if tail or head == "cpu" else None

    @property
    def device(self) -> Device:
        tail = self.spec.rpartition(":")[2]
        return next(device for device in DEVICES if device == tail)

    @property
    def provider(self) -> str | None:
        return EP_BY_NAME[self.ep].provider if self.ep else None

    @property
    def id(self) -> str:
        """What test ids and tables show: the spec, with what makes this target unlike the plain one."""
        if self.name:
            return self.name
        extras = [self.soc] if self.soc and self.soc != DEFAULT_SOC else []
        settings = {**self.options, **self.unchecked_options}
        extras += [f"{key}={value}" for key, value in sorted(settings.items())]
        return "@".join([self.spec, *(["+".join(extras)] if extras else [])])

    def resolved_to(self, spec: str) -> Target:
        """This target with the EP that a bare device turned out to mean."""
        return msgspec.structs.replace(self, spec=spec)


def canonical_spec(text: str) -> str:
    """`QNNExecutionProvider:NPU` → `qnn:npu`; `npu` and `gpu` stay as they are."""
    if not isinstance(text, str):
        raise UsageProblem(f"a target is a string or a Target, not {type(text).__name__}")
    head, colon, tail = text.strip().lower().partition(":")
    if not colon and head in PREFERENCE:
        return head
    if head not in _ALIASES:
        raise unknown_name("target", text, [*ALL_TARGETS, *PREFERENCE])
    ep = EP_BY_NAME[_ALIASES[head]]
    if not colon and len(ep.devices) > 1:
        choices = " or ".join(f"{ep.name}:{device}" for device in ep.devices)
        raise UsageProblem(f"target {text!r} names no device", remedy=f"write {choices}.")
    device = tail if colon else ep.devices[0]
    if device not in ep.devices:
        raise unknown_name("target", text, ALL_TARGETS)
    return "cpu" if ep.name == "cpu" else f"{ep.name}:{device}"


def as_target(value: str | Target) -> Target:
    return value if isinstance(value, Target) else Target(value)


def _check_text_values(spec: str, options: dict[str, str]) -> None:
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise UsageProblem(
                f"target {spec!r}: option {key!r} must be text, as EPs take it", remedy=f"write {str(value)!r}."
            )
