"""Every machine as data: hosts, devices, libraries and the user's choice, and what a target becomes on each."""

from __future__ import annotations

from typing import Literal

import pytest

from pytest_winml.errors import TargetAbsent, UsageProblem
from pytest_winml.providers.binding import EMULATE_WORDS, Binding, Emulate, Surroundings, bind, resolution_order
from pytest_winml.providers.host import Host
from pytest_winml.records.machine import DeviceInfo, EpLibrary
from pytest_winml.records.target import ALL_TARGETS, DEFAULT_SOC, EP_BY_NAME, PREFERENCE, SOC_BY_NAME, Target

DeviceType = Literal["cpu", "gpu", "npu", "unknown"]

LINUX = Host(system="linux", architecture="x64")
LINUX_ARM = Host(system="linux", architecture="arm64")
WINDOWS = Host(system="windows", architecture="x64")
WINDOWS_ARM = Host(system="windows", architecture="arm64")
MAC = Host(system="darwin", architecture="arm64")

X_ELITE_OPTIONS = {"soc_model": "60", "htp_arch": "73"}
EMULATOR_OPTIONS = {"backend_type": "htp", **X_ELITE_OPTIONS}

x64 = pytest.mark.parametrize("host", [LINUX, WINDOWS], ids=lambda host: host.system)
arm64 = pytest.mark.parametrize("host", [LINUX_ARM, WINDOWS_ARM], ids=lambda host: host.system)


def offered(ep: str, *kinds: DeviceType) -> tuple[DeviceInfo, ...]:
    provider = EP_BY_NAME[ep].provider
    return tuple(DeviceInfo(provider=provider, ep_vendor="v", device_type=kind, vendor="v") for kind in kinds)


CPU = offered("cpu", "cpu")


def library(ep: str, origin: Literal["user", "wheel", "windowsml"] = "wheel", version: str = "2.7.0") -> EpLibrary:
    return EpLibrary(ep=ep, path=f"/{ep}", origin=origin, version=version)


def machine(
    host: Host, *devices: DeviceInfo, found: EpLibrary | None = None, listed: tuple[str, ...] = ()
) -> Surroundings:
    """A process that offers the CPU and `devices`; `listed` are providers that offer none."""
    names = [device.provider for device in (*CPU, *devices)] + [EP_BY_NAME[ep].provider for ep in listed]
    return Surroundings(host=host, providers=tuple(dict.fromkeys(names)), devices=(*CPU, *devices), library=found)


def on(surroundings: Surroundings, target: str | Target, emulate: Emulate = "auto") -> Binding:
    return bind(target if isinstance(target, Target) else Target(target), surroundings, emulate)


def absence(surroundings: Surroundings, target: str | Target, emulate: Emulate = "auto") -> TargetAbsent:
    with pytest.raises(TargetAbsent) as caught:
        on(surroundings, target, emulate)
    return caught.value


def with_emulator(host: Host) -> Surroundings:
    return machine(host, *offered("qnn", "cpu"), found=library("qnn"))


# --- cpu


@pytest.mark.parametrize("host", [LINUX, LINUX_ARM, WINDOWS, WINDOWS_ARM, MAC], ids=str)
def test_the_cpu_is_native_everywhere(host: Host) -> None:
    binding = on(machine(host), "cpu")
    assert (binding.provider, binding.device_index, binding.emulated) == ("CPUExecutionProvider", 0, False)
    assert (binding.options, binding.soc) == ({}, None)


# --- qnn:npu


@arm64
def test_an_npu_on_arm64_is_native_and_gets_no_options_of_ours(host: Host) -> None:
    binding = on(machine(host, *offered("qnn", "npu"), found=library("qnn")), "qnn:npu")
    assert (binding.device_index, binding.emulated, binding.options) == (1, False, {})
    assert (binding.soc, binding.ep_version) == (None, "2.7.0")


def test_an_npu_offered_to_x64_python_on_an_arm_device_is_native() -> None:
    """The arm64ec build: the process is x64, the device is real."""
    seen = machine(WINDOWS, *offered("qnn", "cpu", "gpu", "npu"), found=library("qnn"))
    binding = on(seen, "qnn:npu")
    assert (seen.devices[binding.device_index or 0].device_type, binding.emulated) == ("npu", False)
    assert "backend_type" not in binding.options


def test_a_native_npu_is_told_its_soc_only_when_the_user_says_one() -> None:
    seen = machine(WINDOWS_ARM, *offered("qnn", "npu"), found=library("qnn"))
    binding = on(seen, Target("qnn:npu", soc="sc8380xp"))
    assert (binding.options, binding.soc) == (X_ELITE_OPTIONS, "sc8380xp")


@x64
def test_x64_without_the_npu_is_emulated_for_the_default_soc(host: Host) -> None:
    binding = on(with_emulator(host), "qnn:npu")
    assert binding.emulated
    assert (binding.options, binding.soc) == (EMULATOR_OPTIONS, DEFAULT_SOC)
    assert binding.target.device == "npu"


@x64
def test_the_emulator_is_opened_by_the_eps_own_device_and_never_by_type(host: Host) -> None:
    """The EP offers a CPU device there; the first CPU device of the list belongs to another EP."""
    seen = machine(host, *offered("openvino", "cpu", "npu"), *offered("qnn", "cpu"), found=library("qnn"))
    binding = on(seen, "qnn:npu")
    assert binding.device_index == 3
    assert binding.emulated
    assert seen.devices[3].provider == "QNNExecutionProvider"


@x64
@pytest.mark.parametrize("soc", sorted(SOC_BY_NAME))
def test_the_emulator_takes_the_soc_that_was_given(host: Host, soc: str) -> None:
    known = SOC_BY_NAME[soc]
    binding = on(with_emulator(host), Target("qnn:npu", soc=soc))
    assert binding.options == {
        "backend_type": "htp", "soc_model": str(known.soc_model), "htp_arch": str(known.htp_arch),
    }  # fmt: skip
    assert binding.soc == soc


def test_the_users_backend_path_replaces_our_backend_type_since_qnn_refuses_both() -> None:
    binding = on(with_emulator(LINUX), Target("qnn:npu", options={"backend_path": "/my/libQnnHtp.so"}))
    assert binding.options == {**X_ELITE_OPTIONS, "backend_path": "/my/libQnnHtp.so"}


def test_an_unchecked_backend_path_counts_too() -> None:
    binding = on(with_emulator(LINUX), Target("qnn:npu", unchecked_options={"backend_path": "/x"}))
    assert "backend_type" not in binding.options


def test_the_users_options_stand_beside_ours() -> None:
    target = Target("qnn:npu", options={"vtcm_mb": "8"}, unchecked_options={"brand_new": "1"})
    assert on(with_emulator(LINUX), target).options == {**EMULATOR_OPTIONS, "vtcm_mb": "8", "brand_new": "1"}


@pytest.mark.parametrize(
    ("options", "expected", "soc"),
    [
        ({"soc_model": "69"}, {"soc_model": "69", "htp_arch": "79"}, "sm8750"),
        ({"soc_model": "4711", "htp_arch": "99"}, {"soc_model": "4711", "htp_arch": "99"}, None),
        ({"soc_model": "4711"}, {"soc_model": "4711"}, None),
        ({"htp_arch": "75"}, {"soc_model": "60", "htp_arch": "75"}, None),
    ],
)
def test_a_soc_given_by_its_numbers_is_never_called_by_the_default_name(
    options: dict[str, str], expected: dict[str, str], soc: str | None
) -> None:
    binding = on(with_emulator(LINUX), Target("qnn:npu", options=options))
    assert (binding.options, binding.soc) == ({"backend_type": "htp", **expected}, soc)


def test_a_soc_whose_numbers_are_overruled_loses_its_name() -> None:
    target = Target("qnn:npu", soc="sm8750", options={"soc_model": "60"})
    assert on(with_emulator(LINUX), target).soc is None


def test_emulation_that_is_not_wanted_makes_the_target_absent() -> None:
    problem = absence(with_emulator(LINUX), "qnn:npu", "never")
    assert "could only run on the HTP emulator here, and --winml-emulate=never was given" in problem.message
    assert problem.remedy is not None
    assert "--winml-emulate=auto" in problem.remedy


def test_only_emulation_leaves_what_runs_natively_out() -> None:
    assert on(with_emulator(LINUX), "qnn:npu", "only").emulated
    native = machine(WINDOWS_ARM, *offered("qnn", "npu"), found=library("qnn"))
    assert "runs natively here, and --winml-emulate=only was given" in absence(native, "qnn:npu", "only").message
    assert "runs natively here" in absence(machine(LINUX), "cpu", "only").message


def test_a_native_npu_runs_whether_or_not_emulation_is_allowed() -> None:
    native = machine(WINDOWS_ARM, *offered("qnn", "npu"), found=library("qnn"))
    assert not on(native, "qnn:npu", "never").emulated
    assert not on(native, "qnn:npu", "auto").emulated


@arm64
@pytest.mark.parametrize("emulate", EMULATE_WORDS)
def test_arm64_without_an_npu_is_absent_for_it_has_no_emulator(host: Host, emulate: Emulate) -> None:
    problem = absence(machine(host, *offered("qnn", "cpu"), found=library("qnn")), "qnn:npu", emulate)
    assert problem.message == "QNNExecutionProvider is installed but finds no NPU on this machine"
    assert problem.remedy == "run on a machine with that NPU and its driver."


def test_a_plugin_that_offers_nothing_at_all_cannot_be_emulated_either() -> None:
    seen = machine(LINUX, found=library("qnn"), listed=("qnn",))
    assert "offers no device to emulate on" in absence(seen, "qnn:npu").message


# --- qnn:gpu


def test_a_gpu_of_qualcomm_is_native_where_it_is_offered() -> None:
    binding = on(machine(WINDOWS_ARM, *offered("qnn", "npu", "gpu"), found=library("qnn")), "qnn:gpu")
    assert (binding.device_index, binding.emulated, binding.options) == (2, False, {})


@x64
def test_a_gpu_of_qualcomm_is_never_emulated(host: Host) -> None:
    assert "finds no GPU" in absence(with_emulator(host), "qnn:gpu").message


# --- openvino


@pytest.mark.parametrize("device", EP_BY_NAME["openvino"].devices)
def test_the_openvino_plugin_finds_the_devices_of_intel(device: str) -> None:
    seen = machine(LINUX, *offered("openvino", "cpu", "gpu", "npu"), found=library("openvino", version="1.8.1"))
    binding = on(seen, f"openvino:{device}")
    assert binding.device_index is not None
    assert seen.devices[binding.device_index].device_type == device
    assert (binding.emulated, binding.options, binding.ep_version) == (False, {}, "1.8.1")


@x64
@pytest.mark.parametrize("device", EP_BY_NAME["openvino"].devices)
def test_the_openvino_plugin_on_a_machine_without_intel_is_absent(host: Host, device: str) -> None:
    seen = machine(host, found=library("openvino"), listed=("openvino",))
    problem = absence(seen, f"openvino:{device}")
    assert problem.message == f"OpenVINOExecutionProvider is installed but finds no {device.upper()} on this machine"


@pytest.mark.parametrize("device", EP_BY_NAME["openvino"].devices)
def test_the_classic_openvino_is_known_by_name_and_told_its_device(device: str) -> None:
    binding = on(machine(LINUX, listed=("openvino",)), f"openvino:{device}")
    assert (binding.provider, binding.device_index) == ("OpenVINOExecutionProvider", None)
    assert binding.options == {"device_type": device.upper()}
    assert (binding.emulated, binding.ep_version) == (False, None)


def test_a_device_of_another_ep_is_not_taken() -> None:
    seen = machine(WINDOWS, *offered("qnn", "npu"), found=library("openvino"), listed=("openvino",))
    assert "OpenVINOExecutionProvider is installed but finds no NPU" in absence(seen, "openvino:npu").message


# --- dml


def test_directml_runs_on_a_gpu_that_is_offered() -> None:
    assert on(machine(WINDOWS, *offered("dml", "gpu")), "dml:gpu").device_index == 1


def test_directml_that_is_listed_without_a_gpu_is_absent() -> None:
    """It is listed by every build that has it, GPU or not: listed is not usable."""
    problem = absence(machine(WINDOWS, listed=("dml",)), "dml:gpu")
    assert problem.message == "DmlExecutionProvider is installed but finds no GPU on this machine"


# --- what is not installed


@pytest.mark.parametrize(
    ("target", "host", "remedy"),
    [
        ("qnn:npu", LINUX, 'pip install "pytest-winml[qnn]"'),
        ("qnn:npu", WINDOWS_ARM, 'pip install "pytest-winml[qnn]"'),
        ("qnn:npu", MAC, "run on a Windows device that has the EP."),
        ("openvino:npu", WINDOWS, 'pip install "pytest-winml[openvino]"'),
        ("openvino:npu", WINDOWS_ARM, 'pip install "pytest-winml[windowsml]" on a Windows device that has the EP.'),
        ("openvino:cpu", LINUX_ARM, "run on a Windows device that has the EP."),
        ("dml:gpu", WINDOWS, 'pip install "pytest-winml[windowsml]" on a Windows device that has the EP.'),
        ("vitisai:npu", LINUX, "run on a Windows device that has the EP."),
    ],
)
def test_a_provider_that_is_not_there_says_what_would_bring_it(target: str, host: Host, remedy: str) -> None:
    problem = absence(machine(host), target)
    assert problem.message == f"no {Target(target).provider} in this environment"
    assert problem.remedy == remedy


# --- options


def test_options_are_checked_before_anything_is_bound() -> None:
    with pytest.raises(UsageProblem, match="unknown option of qnn 'vtcm'"):
        on(with_emulator(LINUX), Target("qnn:npu", options={"vtcm": "8"}))
    with pytest.raises(UsageProblem, match="unknown option of qnn 'vtcm'"):
        on(machine(LINUX), Target("qnn:npu", options={"vtcm": "8"}))


def test_unchecked_options_pass_as_they_are() -> None:
    assert on(with_emulator(LINUX), Target("qnn:npu", unchecked_options={"vtcm": "8"})).options["vtcm"] == "8"


def test_a_wheels_version_decides_about_new_options_and_a_catalogs_own_numbering_does_not() -> None:
    target = Target("qnn:npu", options={"skip_backend_op_validation": "1"})

    def seen(origin: Literal["wheel", "windowsml"]) -> Surroundings:
        return machine(WINDOWS_ARM, *offered("qnn", "npu"), found=library("qnn", origin, version="1.8.0"))

    with pytest.raises(UsageProblem, match=r"needs qnn 2\.7; 1\.8\.0 is installed"):
        on(seen("wheel"), target)
    assert on(seen("windowsml"), target).ep_version == "1.8.0"


# --- bare devices


def test_a_bare_device_is_resolved_before_it_is_bound() -> None:
    with pytest.raises(UsageProblem, match="must be resolved to an EP before it is bound"):
        on(with_emulator(LINUX), "npu")


@pytest.mark.parametrize("spec", [*ALL_TARGETS, *PREFERENCE])
def test_what_a_target_may_mean_is_itself_or_eps_of_its_device_and_never_the_cpu(spec: str) -> None:
    order = resolution_order(Target(spec))
    if spec in PREFERENCE:
        assert "cpu" not in order
        assert {Target(one).device for one in order} == {spec}
        assert len(set(order)) == len(order) > 1
    else:
        assert order == (spec,)


def test_every_npu_and_gpu_target_can_be_what_a_bare_device_means() -> None:
    for device in PREFERENCE:
        assert set(PREFERENCE[device]) == {spec for spec in ALL_TARGETS if Target(spec).device == device}
