from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_winml.errors import TargetBroken
from pytest_winml.providers.registry import Registry, describe_device, explain_load_failure
from pytest_winml.records.machine import DeviceInfo, EpLibrary

if TYPE_CHECKING:
    from pathlib import Path

WRONG_ARCHITECTURE = "is not a library for this architecture"
NO_ENTRY_POINTS = "does not have the entry points of an EP plugin"
DEPENDENCY_MISSING = "needs a library that is not there"


@dataclass
class FakeOrt:
    """The part of the module `onnxruntime` that a registry uses; `refusals` are raised one by one, then all is well."""

    refusals: list[Exception] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    devices: list[Any] = field(default_factory=list)

    def register_execution_provider_library(self, name: str, path: str) -> None:
        self.calls.append((name, path))
        if self.refusals:
            raise self.refusals.pop(0)

    def get_ep_devices(self) -> list[Any]:
        return self.devices

    def get_available_providers(self) -> list[str]:
        return ["CPUExecutionProvider", *(name for name, _ in self.calls)]


@pytest.fixture
def library(tmp_path: Path) -> EpLibrary:
    path = tmp_path / "ep.library"
    path.write_bytes(b"native code")
    return EpLibrary(ep="qnn", path=str(path), origin="user")


def test_a_library_is_registered_once_under_the_name_ort_knows(library: EpLibrary) -> None:
    ort = FakeOrt()
    registry = Registry(ort)
    registry.register(library)
    registry.register(library)
    assert ort.calls == [("QNNExecutionProvider", library.path)]
    assert registry.failures == {}
    assert registry.providers() == ("CPUExecutionProvider", "QNNExecutionProvider")


def test_two_eps_are_two_registrations(library: EpLibrary) -> None:
    ort = FakeOrt()
    registry = Registry(ort)
    registry.register(library)
    registry.register(EpLibrary(ep="openvino", path=library.path, origin="wheel"))
    assert [name for name, _ in ort.calls] == ["QNNExecutionProvider", "OpenVINOExecutionProvider"]


def test_a_failure_is_kept_with_its_reason_and_tried_again(library: EpLibrary) -> None:
    ort = FakeOrt(refusals=[RuntimeError("Error 1114 in DllMain")])
    registry = Registry(ort)
    with pytest.raises(TargetBroken) as caught:
        registry.register(library)
    assert caught.value.message == (
        f"qnn does not register from the path given for it: EP library {library.path} failed in its own initialisation "
        "(Error 1114 in DllMain)"
    )
    assert caught.value.remedy == "check the device's driver."
    assert list(registry.failures) == ["qnn"]
    assert "failed in its own initialisation" in registry.failures["qnn"]
    registry.register(library)
    assert len(ort.calls) == 2
    assert registry.failures == {}


def test_a_failure_that_stays_is_raised_every_time(library: EpLibrary) -> None:
    ort = FakeOrt(refusals=[RuntimeError("no"), RuntimeError("no")])
    registry = Registry(ort)
    for _ in range(2):
        with pytest.raises(TargetBroken, match=r"cannot be loaded \(no\)"):
            registry.register(library)
    assert "qnn" in registry.failures


def test_a_file_that_is_not_there_is_named_and_ort_is_not_asked(tmp_path: Path) -> None:
    ort = FakeOrt()
    missing = tmp_path / "gone.so"
    with pytest.raises(TargetBroken) as caught:
        Registry(ort).register(EpLibrary(ep="qnn", path=str(missing), origin="user"))
    assert f"EP library {missing} does not exist" in caught.value.message
    assert ort.calls == []


@pytest.mark.parametrize(
    ("origin", "what", "remedy"),
    [
        ("user", "does not register from the path given for it", "give the path of a library that is there."),
        ("wheel", "is installed but does not register", "install the package again."),
    ],
)
def test_what_to_do_depends_on_who_brought_the_library(tmp_path: Path, origin: str, what: str, remedy: str) -> None:
    library = msgspec.convert({"ep": "qnn", "path": str(tmp_path / "gone.so"), "origin": origin}, EpLibrary)
    with pytest.raises(TargetBroken, match=what) as caught:
        Registry(FakeOrt()).register(library)
    assert caught.value.remedy == remedy


def test_nobody_is_told_to_install_what_they_gave_the_path_of(library: EpLibrary) -> None:
    for said in ("Error 126", "Error 193", "Error 1114", "error code: 127", "something else"):
        with pytest.raises(TargetBroken) as caught:
            Registry(FakeOrt(refusals=[OSError(said)])).register(library)
        assert "install the package" not in str(caught.value.remedy)


def test_a_folder_is_no_library(tmp_path: Path) -> None:
    with pytest.raises(TargetBroken, match="does not exist"):
        Registry(FakeOrt()).register(EpLibrary(ep="qnn", path=str(tmp_path), origin="user"))


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        ('LoadLibrary failed with error 126 "" when trying to load "C:\\ep\\qnn.dll"', DEPENDENCY_MISSING),
        ("Error 126: The specified module could not be found", DEPENDENCY_MISSING),
        ('Error 193: "Bad EXE format for C:\\ep\\qnn.dll"', WRONG_ARCHITECTURE),
        ("Failed to find symbol CreateEpFactories in library, error code: 127", NO_ENTRY_POINTS),
        ("Error 1114: A dynamic link library initialization routine failed", "failed in its own initialisation"),
        ("libQnnHtp.so: cannot open shared object file: No such file or directory", DEPENDENCY_MISSING),
        ("/ep/libqnn.so: invalid ELF header", WRONG_ARCHITECTURE),
        ("/ep/libqnn.so: wrong ELF class: ELFCLASS32", WRONG_ARCHITECTURE),
        ("/ep/libqnn.so: file too short", WRONG_ARCHITECTURE),
        ("/ep/libqnn.so: undefined symbol: CreateEpFactories", NO_ENTRY_POINTS),
        ("something nobody has seen", "cannot be loaded"),
        ("Error 12600 is another number", "cannot be loaded"),
    ],
)
def test_what_a_loader_says_is_put_in_a_persons_words(message: str, meaning: str) -> None:
    found, remedy = explain_load_failure(message)
    assert found == meaning
    assert remedy


def test_the_loaders_own_message_is_kept(library: EpLibrary) -> None:
    said = 'Error 193: "Bad EXE format"'
    with pytest.raises(TargetBroken, match="Bad EXE format") as caught:
        Registry(FakeOrt(refusals=[OSError(said)])).register(library)
    assert isinstance(caught.value.__cause__, OSError)


def ep_device(kind: str) -> Any:
    return SimpleNamespace(
        ep_name="QNNExecutionProvider",
        ep_vendor="Qualcomm",
        ep_metadata={"library_path": "/ep/qnn.so", "version": "2.7.0"},
        device=SimpleNamespace(type=kind, vendor="Qualcomm", metadata={"Discrete": 0}),
    )


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        ("OrtHardwareDeviceType.NPU", "npu"),
        ("OrtHardwareDeviceType.GPU", "gpu"),
        ("OrtHardwareDeviceType.CPU", "cpu"),
        ("NPU", "npu"),
        ("OrtHardwareDeviceType.FPGA", "unknown"),
        ("NPU_LIKE", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_device_is_described_by_plain_data(kind: str, read: str) -> None:
    described = describe_device(ep_device(kind))
    assert described.device_type == read
    assert (described.provider, described.library_path) == ("QNNExecutionProvider", "/ep/qnn.so")
    assert described.metadata == {"Discrete": "0"}


def test_devices_come_with_orts_own_object_to_open_a_session_with() -> None:
    device = ep_device("NPU")
    assert Registry(FakeOrt(devices=[device])).devices() == ((describe_device(device), device),)


def test_a_device_without_a_library_is_one_of_orts_own() -> None:
    device = ep_device("CPU")
    device.ep_metadata = {}
    assert describe_device(device) == DeviceInfo(
        provider="QNNExecutionProvider",
        ep_vendor="Qualcomm",
        device_type="cpu",
        vendor="Qualcomm",
        library_path=None,
        metadata={"Discrete": "0"},
    )
