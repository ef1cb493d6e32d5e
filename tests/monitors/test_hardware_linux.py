"""Linux's counters below made-up /sys and /proc."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_winml.monitors.hardware_counters import NoCounters
from pytest_winml.monitors.hardware_linux import DrmCounters, IntelNpuCounters, linux_counters

if TYPE_CHECKING:
    from pathlib import Path

OPENVINO = "OpenVINOExecutionProvider"


def npu(system: Path, busy_us: int, memory: int | None = None) -> Path:
    folder = system / "class" / "accel" / "accel0" / "device"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "npu_busy_time_us").write_text(f"{busy_us}\n")
    if memory is not None:
        (folder / "npu_memory_utilization").write_text(f"{memory}\n")
    return folder / "npu_busy_time_us"


def test_the_npus_busy_time_becomes_percent_of_the_time_between(tmp_path: Path) -> None:
    moments = iter([10.0, 10.5])
    counters = IntelNpuCounters(npu(tmp_path, 1_000_000, memory=77), clock=lambda: next(moments))
    assert counters.read() == {"device_memory_bytes": 77}
    npu(tmp_path, 1_200_000)
    assert counters.read() == {"device_percent": pytest.approx(40), "device_memory_bytes": 77}
    assert counters.missing == {}
    assert counters.device == "accel0, all processes"


def test_a_driver_without_memory_says_so(tmp_path: Path) -> None:
    npu(tmp_path, 0)
    counters = linux_counters("npu", 1, OPENVINO, system=tmp_path)
    assert isinstance(counters, IntelNpuCounters)
    assert "npu_memory_utilization" in counters.missing["device_memory_bytes"]


@pytest.mark.parametrize("provider", [OPENVINO, "QNNExecutionProvider", "VitisAIExecutionProvider"])
def test_an_npu_without_counters_has_a_reason(tmp_path: Path, provider: str) -> None:
    counters = linux_counters("npu", 1, provider, system=tmp_path)
    assert isinstance(counters, NoCounters)
    assert counters.missing["device_percent"].startswith("not available: ")


def client(folder: Path, number: int, render_ns: int, copy_ns: int, *, client_id: int = 1) -> None:
    folder.mkdir(exist_ok=True)
    (folder / str(number)).write_text(
        f"pos:\t0\ndrm-driver:\txe\ndrm-pdev:\t0000:00:02.0\ndrm-client-id:\t{client_id}\n"
        f"drm-engine-capacity-render:\t2\ndrm-engine-render:\t{render_ns} ns\ndrm-engine-copy:\t{copy_ns} ns\n"
        "drm-total-system0:\t12 KiB\ndrm-shared-system0:\t4 KiB\n"
    )


def test_the_busiest_engine_of_the_process_counts_and_a_client_counts_once(tmp_path: Path) -> None:
    folder = tmp_path / "fdinfo"
    moments = iter([1.0, 2.0])
    counters = DrmCounters(folder, clock=lambda: next(moments))
    for number in (3, 4):
        client(folder, number, 0, 0)
    (folder / "5").write_text("pos:\t0\n")
    assert counters.read() == {"device_memory_bytes": 12 * 1024}
    for number in (3, 4):
        client(folder, number, 250_000_000, 100_000_000)
    assert counters.read() == {"device_percent": pytest.approx(25), "device_memory_bytes": 12 * 1024}
    assert (counters.device, counters.missing) == ("xe", {})


def test_a_process_that_uses_no_gpu_is_missing_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "7" / "fdinfo").mkdir(parents=True)
    counters = linux_counters("gpu", 7, OPENVINO, processes=tmp_path)
    assert counters.read() == {}
    assert "no DRM client" in counters.missing["device_percent"]
