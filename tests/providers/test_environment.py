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
import psutil
import pytest

from pytest_winml.providers import environment
from pytest_winml.providers.distributions import UNKNOWN_VERSION, Distribution, RuntimeInstall
from pytest_winml.providers.environment import PACKAGES_THAT_MATTER, read_environment
from pytest_winml.providers.host import Host, this_host
from pytest_winml.records.machine import Environment


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


@pytest.mark.parametrize(("plugged", "source"), [(True, "mains"), (False, "battery"), (None, None)])
def test_power_that_the_machine_does_not_tell_is_unknown_and_not_guessed(
    monkeypatch: pytest.MonkeyPatch, plugged: bool | None, source: str | None
) -> None:
    battery = SimpleNamespace(percent=81, power_plugged=plugged)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    power = read_environment().power
    assert (power.source, power.battery_percent) == (source, 81.0)


def test_a_machine_without_a_battery_says_nothing_of_power(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "sensors_battery", lambda: None, raising=False)
    power = read_environment().power
    assert (power.source, power.battery_percent) == (None, None)


def test_a_system_on_which_psutil_knows_no_batteries_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(psutil, "sensors_battery", raising=False)
    assert read_environment().power.source is None


def test_the_governor_is_read_where_there_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    governor = tmp_path / "scaling_governor"
    monkeypatch.setattr(environment, "_GOVERNOR", governor)
    assert read_environment().power.governor is None
    governor.write_text("powersave\n", encoding="ascii")
    assert read_environment().power.governor == "powersave"


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
