from __future__ import annotations

import platform
import re
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_winml.providers.drivers import NO_DRIVER, driver_text, driver_version, linux_driver
from pytest_winml.providers.identity import Readers, read_identity
from pytest_winml.providers.windows_system import Driver
from pytest_winml.records.identity import MachineIdentity, comparable, differences
from pytest_winml.records.machine import Availability, EpLibrary, PowerState, Runtime
from tests.platforms import posix_only, under_wine

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_winml.records.target import Device

CPU = Availability(target="cpu", resolved="cpu", mode="native")
NPU = Availability(target="npu", resolved="qnn:npu", mode="native", ep_version="2.7.0", soc="sc8380xp")
RUNTIME = Runtime(version="1.31.1", package="onnxruntime", providers=(), libraries=())


def the_driver(ep: str, device: Device) -> str:
    return f"driver of {ep} on {device}"


def fixed(**answers: Any) -> Readers:
    """Readers of a made-up machine."""
    told = {
        "cpu": "A CPU", "architecture": "ARM64", "logical_cpus": 12, "os_build": "An OS 1.2", "host": "0badcafe",
        "power": PowerState(source="mains", battery_percent=80.0, mode="plan balanced"), "memory_bytes": 16_000,
        "clock_mhz": 3000.0, "free_memory_bytes": 9_000, **answers,
    }  # fmt: skip
    return Readers(driver=the_driver, **{name: (lambda value=value: value) for name, value in told.items()})


def test_each_answer_stands_in_its_field() -> None:
    found = read_identity(NPU, RUNTIME, readers=fixed())
    assert msgspec.structs.replace(found, python=None, plugin_version=None) == MachineIdentity(
        cpu="A CPU", soc="sc8380xp", architecture="ARM64", logical_cpus=12, device="npu", mode="native",
        driver_version="driver of qnn on npu", ep="qnn", ep_version="2.7.0", runtime_package="onnxruntime",
        runtime_version="1.31.1", os_build="An OS 1.2", power_mode="plan balanced", power_source="mains",
        host="0badcafe", memory_bytes=16_000, battery_percent=80.0, cpu_clock_mhz=3000.0, free_memory_bytes=9_000,
    )  # fmt: skip
    assert found.python == platform.python_version()


def test_what_raises_is_unknown_and_nothing_is_raised() -> None:
    def broken(*_: Any) -> Any:
        raise OSError("no such device")

    readers = Readers(**dict.fromkeys(Readers.__dataclass_fields__, broken))
    found = read_identity(NPU, None, readers=readers)
    known = {name for name, value in msgspec.structs.asdict(found).items() if value is not None}
    assert known == {"soc", "device", "mode", "ep", "ep_version", "python", "plugin_version"}


def test_empty_answers_are_unknown() -> None:
    found = read_identity(NPU, RUNTIME, readers=fixed(cpu="", architecture="", os_build=""))
    assert (found.cpu, found.architecture, found.os_build) == (None, None, None)


def test_a_target_that_nobody_knows_is_unknown() -> None:
    found = read_identity(Availability(target="abacus", resolved=None, mode="absent"), RUNTIME, readers=fixed())
    assert (found.ep, found.device, found.driver_version, found.mode) == (None, None, None, None)


def test_an_ep_of_the_runtime_has_the_runtimes_version() -> None:
    assert read_identity(CPU, RUNTIME, readers=fixed()).ep_version == "1.31.1"


def test_an_ep_from_a_library_without_a_version_is_of_unknown_version() -> None:
    library = EpLibrary(ep="qnn", path="somewhere", origin="user")
    runtime = msgspec.structs.replace(RUNTIME, libraries=(library,))
    unversioned = msgspec.structs.replace(NPU, ep_version=None)
    assert read_identity(unversioned, runtime, readers=fixed()).ep_version is None


def test_an_emulated_device_is_another_machine_and_has_no_driver() -> None:
    emulated = read_identity(msgspec.structs.replace(NPU, mode="emulated"), RUNTIME, readers=fixed())
    assert emulated.driver_version == NO_DRIVER
    assert not comparable(differences(read_identity(NPU, RUNTIME, readers=fixed()), emulated))


def test_this_machine_is_itself_a_moment_later() -> None:
    first, second = read_identity(CPU, RUNTIME), read_identity(CPU, RUNTIME)
    assert comparable(differences(first, second))
    assert first.digest == second.digest


def test_this_machine_tells_what_every_system_tells() -> None:
    found = read_identity(CPU, RUNTIME)
    assert found.cpu
    assert found.os_build
    assert found.architecture == platform.machine()
    assert (found.logical_cpus or 0) > 0
    assert (found.memory_bytes or 0) > (found.free_memory_bytes or 0) > 0
    assert (found.device, found.driver_version) == ("cpu", NO_DRIVER)


@posix_only
def test_the_build_of_linux_is_its_kernel() -> None:
    assert read_identity(CPU, RUNTIME).os_build == f"{platform.system()} {platform.release()}"


@pytest.mark.skipif(sys.platform != "win32", reason="is about Windows")
def test_the_build_of_windows_has_its_update() -> None:
    found = read_identity(CPU, RUNTIME).os_build or ""
    update = "" if under_wine() else r"\.\d+"
    assert re.match(rf"Windows \d+\.\d+\.\d+{update}", found), found


def test_no_name_of_the_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "the-secret-host")
    found = read_identity(CPU, RUNTIME)
    assert "secret" not in str(msgspec.to_builtins(found))
    assert re.fullmatch("[0-9a-f]{8}", found.host or "")
    monkeypatch.setattr(platform, "node", lambda: "another-host")
    assert read_identity(CPU, RUNTIME).host != found.host
    monkeypatch.setattr(platform, "node", lambda: "")
    assert read_identity(CPU, RUNTIME).host is None


HEXAGON = Driver("Snapdragon(R) X Elite - Hexagon NPU", "Qualcomm Inc.", "30.0.143.0")
BOOST = Driver("Intel(R) AI Boost", "Intel Corporation", "32.0.100.4023")


@pytest.mark.parametrize(
    ("found", "ep", "text"),
    [
        ([], "qnn", None),
        ([HEXAGON], "qnn", "Snapdragon(R) X Elite - Hexagon NPU 30.0.143.0"),
        ([BOOST, HEXAGON], "openvino", "Intel(R) AI Boost 32.0.100.4023"),
        ([HEXAGON, HEXAGON], "openvino", "Snapdragon(R) X Elite - Hexagon NPU 30.0.143.0"),
        ([HEXAGON, BOOST], "dml", f"Intel(R) AI Boost {BOOST.version}; {HEXAGON.description} {HEXAGON.version}"),
    ],
)
def test_drivers_of_windows_are_those_of_the_eps_vendor(found: list[Driver], ep: str, text: str | None) -> None:
    assert driver_text(found, ep) == text


@pytest.mark.skipif(sys.platform != "win32", reason="is about Windows")
@pytest.mark.parametrize("device", ["npu", "gpu"])
def test_windows_answers_for_every_device(device: Device) -> None:
    answer = driver_version("dml", device)
    assert answer is None or re.search(r"\d", answer)


@posix_only
def test_drivers_of_linux_have_their_version_or_the_kernels(tmp_path: Path) -> None:
    for name, driver in {"accel0": "intel_vpu", "accel1": "own"}.items():
        (tmp_path / "drivers" / driver / "module").mkdir(parents=True)
        (tmp_path / "accel" / name / "device").mkdir(parents=True)
        (tmp_path / "accel" / name / "device" / "driver").symlink_to(tmp_path / "drivers" / driver)
    (tmp_path / "drivers" / "own" / "module" / "version").write_text("1.2.3\n", encoding="ascii")
    (tmp_path / "accel" / "connector").mkdir()
    assert linux_driver(tmp_path / "accel") == "intel_vpu (of the kernel); own 1.2.3"


@posix_only
@pytest.mark.parametrize("device", ["npu", "gpu"])
def test_a_machine_without_the_device_tells_no_driver(tmp_path: Path, device: Device) -> None:
    assert driver_version("qnn", device, tmp_path) is None
