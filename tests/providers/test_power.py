from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_winml.providers import power
from pytest_winml.providers.power import linux_mode, read_power, windows_mode
from tests.platforms import posix_only

if TYPE_CHECKING:
    from pathlib import Path

BALANCED = "381b4222-f694-41f0-9685-ff5bb260df2e"
BEST = "ded574b5-45a0-4f42-8737-46345c09c238"


@pytest.fixture(autouse=True)
def _no_supplies_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "sensors_battery", lambda: None, raising=False)


def write(system: Path, path: str, text: str) -> None:
    (system / path).parent.mkdir(parents=True, exist_ok=True)
    (system / path).write_text(f"{text}\n", encoding="ascii")


@pytest.mark.parametrize(("plugged", "source"), [(True, "mains"), (False, "battery")])
def test_a_battery_tells_what_powers_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plugged: bool, source: str
) -> None:
    battery = SimpleNamespace(percent=81, power_plugged=plugged)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery)
    found = read_power(tmp_path)
    assert (found.source, found.battery_percent) == (source, 81.0)


@pytest.mark.parametrize(("on_mains", "source"), [(True, "mains"), (False, "battery"), (None, None)])
def test_where_no_battery_tells_the_supplies_do(
    monkeypatch: pytest.MonkeyPatch, on_mains: bool | None, source: str | None
) -> None:
    monkeypatch.setattr(power, "_on_mains", lambda _: on_mains)
    assert read_power().source == source
    silent = SimpleNamespace(percent=50, power_plugged=None)
    monkeypatch.setattr(psutil, "sensors_battery", lambda: silent)
    assert (read_power().source, read_power().battery_percent) == (source, 50.0)


@posix_only
@pytest.mark.parametrize(
    ("supplies", "source"),
    [
        ({}, None),
        ({"AC": ("Mains", "1")}, "mains"),
        ({"AC": ("Mains", "0")}, "battery"),
        ({"AC": ("Mains", "0"), "usb-c": ("USB", "1")}, "mains"),
        ({"BAT0": ("Battery", "1")}, None),
    ],
)
def test_supplies_of_linux_are_read(tmp_path: Path, supplies: dict[str, tuple[str, str]], source: str | None) -> None:
    for name, (kind, online) in supplies.items():
        write(tmp_path, f"class/power_supply/{name}/type", kind)
        write(tmp_path, f"class/power_supply/{name}/online", online)
    assert read_power(tmp_path).source == source


def test_a_system_on_which_psutil_knows_no_batteries_is_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(psutil, "sensors_battery", raising=False)
    assert read_power(tmp_path).battery_percent is None


def test_a_battery_that_cannot_be_read_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken() -> None:
        raise RuntimeError("firmware")

    monkeypatch.setattr(psutil, "sensors_battery", broken)
    assert read_power(tmp_path).battery_percent is None


def test_the_governor_is_read_where_there_is_one(tmp_path: Path) -> None:
    assert read_power(tmp_path).governor is None
    write(tmp_path, "devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave")
    assert read_power(tmp_path).governor == "powersave"


def test_the_mode_of_linux_is_all_that_trades_speed_for_power(tmp_path: Path) -> None:
    assert linux_mode(tmp_path) is None
    write(tmp_path, "firmware/acpi/platform_profile", "balanced")
    assert linux_mode(tmp_path) == "profile balanced"
    write(tmp_path, "devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave")
    write(tmp_path, "devices/system/cpu/cpu0/cpufreq/energy_performance_preference", "power")
    assert linux_mode(tmp_path) == "governor powersave, preference power, profile balanced"


@pytest.mark.parametrize(
    ("scheme", "overlay", "saver", "mode"),
    [
        (BALANCED, BEST, False, "plan balanced, mode best performance"),
        (BALANCED, "00000000-0000-0000-0000-000000000000", True, "plan balanced, mode balanced, energy saver"),
        ("11111111-2222-3333-4444-555555555555", None, False, "plan 11111111-2222-3333-4444-555555555555"),
        (None, BEST, False, "mode best performance"),
        (None, None, False, None),
    ],
)
def test_the_mode_of_windows_is_told_in_english_everywhere(
    scheme: str | None, overlay: str | None, saver: bool, mode: str | None
) -> None:
    assert windows_mode(scheme=scheme, overlay=overlay, saver=saver) == mode


@pytest.mark.skipif(sys.platform != "win32", reason="is about Windows")
def test_windows_tells_its_power_scheme() -> None:
    if sys.platform == "win32":
        from pytest_winml.providers import windows_system

        assert isinstance(windows_system.power_status().saver, bool)
        mode = read_power().mode
        assert mode is None or mode.startswith(("plan ", "mode ", "energy saver"))


@posix_only
def test_this_machine_is_read_without_an_error() -> None:
    assert read_power().source in ("mains", "battery", None)
