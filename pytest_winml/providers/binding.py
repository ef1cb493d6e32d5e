"""How a target binds to a device of this process: a pure decision over plain data, so every machine can be tested.

A bare `npu` or `gpu` is resolved before this, by `resolution_order`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pytest_winml.errors import TargetAbsent, UsageProblem
from pytest_winml.providers.host import Host
from pytest_winml.providers.libraries import wheel_for
from pytest_winml.providers.options import check_options
from pytest_winml.records.base import Record
from pytest_winml.records.machine import DeviceInfo, EpLibrary
from pytest_winml.records.target import DEFAULT_SOC, EP_BY_NAME, PREFERENCE, SOC_BY_NAME, SOCS, Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Emulate = Literal["auto", "never", "only"]
EMULATE_WORDS: tuple[Emulate, ...] = ("auto", "never", "only")


class Binding(Record, frozen=True, kw_only=True):
    """A target tied to one device, or, for classic builds that offer no device, to a provider by name."""

    target: Target
    provider: str
    device_index: int | None
    options: dict[str, str]
    emulated: bool
    soc: str | None
    ep_version: str | None


class Surroundings(Record, frozen=True, kw_only=True):
    """What a process sees: the host, ORT's providers, the devices on offer, the library an EP came from.

    `runtime` is the distribution that ORT is of: a plugin wheel wants the plain one beside it.
    """

    host: Host
    providers: tuple[str, ...]
    devices: tuple[DeviceInfo, ...]
    library: EpLibrary | None
    runtime: str = "onnxruntime"


def bind(target: Target, surroundings: Surroundings, emulate: Emulate) -> Binding:
    """Ties the target to a device or raises `TargetAbsent` with the reason and what would make it run."""
    if target.ep is None:
        raise UsageProblem(f"target {target.spec!r} must be resolved to an EP before it is bound")
    library = surroundings.library
    comparable_version = library.version if library and library.origin == "wheel" else None
    check_options(target.ep, comparable_version, target.options)
    binding = _bind_device(target, surroundings, library.version if library else None)
    if binding.emulated and emulate == "never":
        raise TargetAbsent(
            f"{target.spec} could only run on the HTP emulator here, and --winml-emulate=never was given",
            remedy="run on a device with the NPU, or allow emulation with --winml-emulate=auto.",
        )
    if not binding.emulated and emulate == "only":
        raise TargetAbsent(f"{target.spec} runs natively here, and --winml-emulate=only was given")
    return binding


def _bind_device(target: Target, seen: Surroundings, version: str | None) -> Binding:
    provider = EP_BY_NAME[str(target.ep)].provider
    user = {**target.options, **target.unchecked_options}
    if provider not in seen.providers:
        raise TargetAbsent(f"no {provider} in this environment", remedy=_how_to_install(target, seen))
    index = _device_index(seen.devices, provider, target.device)
    if index is not None:
        options = {**_soc_options(target.soc), **user}
        return _binding(target, index, options=options, version=version, soc=_named_soc(target.soc, options))
    if target.spec == "qnn:npu" and seen.host.is_x64:
        return _bind_emulator(target, seen, version)
    offers_devices = any(device.provider == provider for device in seen.devices)
    # ORT always lists DirectML's devices: when there are none, there is no GPU.
    if target.ep != "dml" and not offers_devices and seen.library is None:
        # A classic build: the EP is compiled in and known by name only. Opening tells whether the device is there.
        named = {"device_type": target.device.upper()} if target.ep == "openvino" else {}
        return _binding(target, None, options={**named, **user}, version=version)
    raise TargetAbsent(
        f"{provider} is installed but finds no {target.device.upper()} on this machine",
        remedy=f"run on a machine with that {target.device.upper()} and its driver.",
    )


def _bind_emulator(target: Target, seen: Surroundings, version: str | None) -> Binding:
    """On x64 without a Qualcomm NPU the EP offers a CPU device; with the HTP backend that is Qualcomm's emulator."""
    provider = EP_BY_NAME["qnn"].provider
    index = next((place for place, device in enumerate(seen.devices) if device.provider == provider), None)
    if index is None:
        raise TargetAbsent(f"{provider} offers no device to emulate on", remedy="run `pytest-winml doctor`.")
    user = {**target.options, **target.unchecked_options}
    backend = {} if "backend_path" in user or "backend_type" in user else {"backend_type": "htp"}
    soc = target.soc or (_soc_numbered(user["soc_model"]) if "soc_model" in user else DEFAULT_SOC)
    options = {**backend, **_soc_options(soc), **user}
    return _binding(target, index, options=options, version=version, soc=_named_soc(soc, options), emulated=True)


def _binding(
    target: Target,
    index: int | None,
    *,
    options: Mapping[str, str],
    version: str | None,
    soc: str | None = None,
    emulated: bool = False,
) -> Binding:
    return Binding(
        target=target,
        provider=EP_BY_NAME[str(target.ep)].provider,
        device_index=index,
        options=dict(options),
        emulated=emulated,
        soc=soc,
        ep_version=version,
    )


def _soc_options(soc: str | None) -> dict[str, str]:
    if soc is None:
        return {}
    known = SOC_BY_NAME[soc]
    return {"soc_model": str(known.soc_model), "htp_arch": str(known.htp_arch)}


def _soc_numbered(soc_model: str) -> str | None:
    return next((soc.name for soc in SOCS if str(soc.soc_model) == soc_model), None)


def _named_soc(soc: str | None, options: Mapping[str, str]) -> str | None:
    """The SoC's name as long as its options are those the EP gets: the user's own may say another."""
    return soc if _soc_options(soc).items() <= options.items() else None


def _device_index(devices: Sequence[DeviceInfo], provider: str, kind: str) -> int | None:
    matches = (
        place for place, device in enumerate(devices) if device.provider == provider and device.device_type == kind
    )
    return next(matches, None)


def _how_to_install(target: Target, seen: Surroundings) -> str:
    host, wheel = seen.host, wheel_for(str(target.ep))
    has_wheel = host.system != "darwin" and (host.is_x64 or target.ep != "openvino")
    if wheel is not None and has_wheel:
        command = f'pip install "pytest-winml[{wheel.ep}]"'
        return command if seen.runtime == "onnxruntime" else f"{command} in an environment without {seen.runtime}"
    if host.system == "windows":
        return 'pip install "pytest-winml[windowsml]" on a Windows device that has the EP.'
    return "run on a Windows device that has the EP."


def resolution_order(target: Target) -> tuple[str, ...]:
    """The specs a target may mean, preferred first: itself, or what a bare device stands for. Never the CPU."""
    return PREFERENCE.get(target.spec, (target.spec,))
