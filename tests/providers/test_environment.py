from __future__ import annotations

import os
import platform
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pytest_winml.providers import environment
from pytest_winml.providers.distributions import UNKNOWN_VERSION, Distribution, RuntimeInstall
from pytest_winml.providers.environment import PACKAGES_THAT_MATTER, read_environment
from pytest_winml.providers.host import Host, this_host
from pytest_winml.records.machine import Environment
from tests.platforms import posix_only


@pytest.fixture(scope="module")
def here() -> Environment:
    return read_environment()


def test_the_host_is_described_as_python_sees_it(here: Environment) -> None:
    assert (here.os, here.machine, here.python) == (platform.system(), platform.machine(), platform.python_version())
    assert here.cpu.strip() == here.cpu != ""
    assert here.logical_cpus == os.cpu_count()
    assert here.memory_bytes > 100_000_000


def test_packages_are_those_that_matter_and_are_installed(here: Environment) -> None:
    assert {"pytest", "msgspec", "numpy", "onnx"} <= here.packages.keys() <= set(PACKAGES_THAT_MATTER)
    for name, version in here.packages.items():
        assert metadata.version(name) == version


def test_it_can_be_written_and_read_back(here: Environment) -> None:
    assert msgspec.json.decode(msgspec.json.encode(here), type=Environment) == here


def text_of(found: Environment) -> str:
    return msgspec.json.encode(found).decode()


def test_it_holds_no_path_of_the_machine(here: Environment) -> None:
    for place in (Path.home(), Path.cwd(), Path(tempfile.gettempdir()), Path(sys.prefix)):
        if place != Path(place.anchor):
            assert msgspec.json.encode(str(place)).decode().strip('"') not in text_of(here)


def test_it_holds_no_name_of_the_user_or_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("USER", "USERNAME", "LOGNAME", "LNAME"):
        monkeypatch.setenv(variable, "wilhelmina")
    for variable in ("COMPUTERNAME", "HOSTNAME"):
        monkeypatch.setenv(variable, "the-secret-host")
    monkeypatch.setattr(platform, "node", lambda: "the-secret-host")
    found = text_of(read_environment())
    assert "wilhelmina" not in found
    assert "the-secret-host" not in found


@posix_only
def test_a_processor_is_named_by_its_model_or_its_board(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info, board = tmp_path / "cpuinfo", tmp_path / "model"
    monkeypatch.setattr(environment, "_CPU_INFO", info)
    monkeypatch.setattr(environment, "_DEVICE_TREE", board)
    assert read_environment().cpu == (platform.processor() or platform.machine())
    board.write_bytes(b"Qualcomm CRD\0")
    info.write_text("processor\t: 0\nCPU part\t: 0x001\n", encoding="ascii")
    assert read_environment().cpu == "Qualcomm CRD"
    info.write_text("model name\t: A CPU\n", encoding="ascii")
    assert read_environment().cpu == "A CPU"


@pytest.mark.parametrize(
    ("distributions", "runtime"),
    [
        ((), None),
        ((Distribution("onnxruntime", "1.31.1"),), "onnxruntime 1.31.1"),
        (
            (Distribution("onnxruntime", "1.31.1"), Distribution("onnxruntime-gpu", UNKNOWN_VERSION)),
            "onnxruntime 1.31.1 + onnxruntime-gpu (unknown version)",
        ),
    ],
)
def test_every_runtime_is_named_with_its_version(
    monkeypatch: pytest.MonkeyPatch, distributions: tuple[Distribution, ...], runtime: str | None
) -> None:
    monkeypatch.setattr(environment, "runtime_install", lambda: RuntimeInstall(distributions=distributions))
    assert read_environment().runtime == runtime


@pytest.mark.parametrize(
    ("system", "machine", "host"),
    [
        ("win32", "AMD64", Host(system="windows", architecture="x64")),
        ("win32", "ARM64", Host(system="windows", architecture="arm64")),
        ("linux", "x86_64", Host(system="linux", architecture="x64")),
        ("linux", "aarch64", Host(system="linux", architecture="arm64")),
        ("darwin", "arm64", Host(system="darwin", architecture="arm64")),
        ("linux", "riscv64", Host(system="linux", architecture="riscv64")),
    ],
)
def test_the_host_has_one_name_for_each_architecture(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, host: Host
) -> None:
    fake_sys: Any = SimpleNamespace(platform=system)
    monkeypatch.setattr("pytest_winml.providers.host.sys", fake_sys)
    monkeypatch.setattr("pytest_winml.providers.host.platform", SimpleNamespace(machine=lambda: machine))
    assert this_host() == host
    assert this_host().is_x64 is (host.architecture == "x64")
