"""Windows' counters: which adapter, which engines, and PDH's calls against a library that stands for it."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pytest

from pytest_winml.monitors import hardware_windows
from pytest_winml.monitors.hardware_windows import (
    LOCAL_MEMORY,
    SHARED_MEMORY,
    UTILIZATION,
    AdapterCounters,
    PdhQuery,
    luid_text,
    open_counters,
)
from tests.platforms import under_wine

PID = 4711
NPU = "0x00000000_0x0001a2b3"
GPU = "0x00000000_0x0000c0de"


def engine(luid: str, number: int, kind: str, pid: int = PID) -> str:
    return f"pid_{pid}_luid_{luid}_phys_0_eng_{number}_engtype_{kind}"


def memory(luid: str, pid: int = PID) -> str:
    return f"pid_{pid}_luid_{luid}_phys_0"


class Query:
    """Values by counter path; a path that is not among them is refused."""

    def __init__(self, values: dict[str, dict[str, float]]) -> None:
        self.by_path = values
        self.collected = 0
        self.closed = False

    def add(self, path: str) -> str:
        if path not in self.by_path:
            raise OSError(f"not available: PDH refuses the counter {path} (0xC0000BB8)")
        return path

    def collect(self) -> None:
        self.collected += 1

    def values(self, counter: str) -> dict[str, float]:
        return self.by_path[counter]

    def close(self) -> None:
        self.closed = True


BOTH = {
    UTILIZATION: {
        engine(NPU, 0, "Compute"): 30.0,
        engine(NPU, 1, "Neural"): 130.0,
        engine(GPU, 0, "3D"): 60.0,
        engine(GPU, 1, "Copy"): 5.0,
        engine(NPU, 0, "Compute", pid=1): 99.0,
        "_Total": 500.0,
    },
    LOCAL_MEMORY: {memory(NPU): 100.0, memory(GPU): 7.0, memory(NPU, pid=1): 1e9},
    SHARED_MEMORY: {memory(NPU): 20.0},
}


def read(counters: AdapterCounters) -> Any:
    assert counters.read() == {}, "the first read primes"
    return counters.read()


def test_the_busiest_engine_of_the_processs_adapter_counts() -> None:
    counters = AdapterCounters(Query(BOTH), "npu", PID, NPU)
    assert read(counters) == {"device_percent": 130.0, "device_memory_bytes": 120}
    assert (counters.device, counters.missing) == (f"luid_{NPU}", {})


@pytest.mark.parametrize(("device", "luid", "percent"), [("npu", NPU, 130.0), ("gpu", GPU, 60.0)])
def test_without_a_luid_the_engines_tell_an_npu_from_a_gpu(device: str, luid: str, percent: float) -> None:
    counters = AdapterCounters(Query(BOTH), device, PID, None)
    assert read(counters)["device_percent"] == percent
    assert (counters.device, counters.missing) == (f"luid_{luid}", {})


def test_two_adapters_that_could_be_meant_give_no_figure() -> None:
    other = "0x00000000_0x00000001"
    values = {**BOTH, UTILIZATION: {**BOTH[UTILIZATION], engine(other, 0, "Compute"): 1.0}}
    counters = AdapterCounters(Query(values), "npu", PID, None)
    assert read(counters) == {}
    assert "uses 2 adapters of the kind" in counters.missing["device_percent"]


def test_an_adapter_that_appears_later_ends_the_reason() -> None:
    query = Query({**BOTH, UTILIZATION: {}})
    counters = AdapterCounters(query, "npu", PID, None)
    assert read(counters) == {}
    assert "uses no adapter of the kind" in counters.missing["device_percent"]
    query.by_path = BOTH
    assert counters.read()["device_percent"] == 130.0
    assert counters.missing == {}


def test_a_known_adapter_that_the_process_does_not_use_is_idle() -> None:
    assert read(AdapterCounters(Query({**BOTH, UTILIZATION: {}}), "npu", PID, NPU))["device_percent"] == 0.0


def test_a_counter_that_is_refused_is_missing_and_the_others_are_read() -> None:
    counters = AdapterCounters(Query({UTILIZATION: BOTH[UTILIZATION]}), "npu", PID, NPU)
    assert read(counters) == {"device_percent": 130.0}
    assert "refuses the counter" in counters.missing["device_memory_bytes"]
    nothing = AdapterCounters(Query({}), "npu", PID, NPU)
    assert read(nothing) == {}
    assert set(nothing.missing) == {"device_percent", "device_memory_bytes"}


@pytest.mark.parametrize(
    ("metadata", "luid"),
    [
        ({"LUID": "107187"}, NPU),
        ({"luid": str(0x12_0000ABCD)}, "0x00000012_0x0000abcd"),
        ({"LUID": "0"}, None),
        ({"LUID": "0x1a"}, None),
        ({"LUID": str(2**64)}, None),
        ({}, None),
    ],
)
def test_the_luid_of_orts_metadata_is_spelt_as_instances_are(metadata: dict[str, str], luid: str | None) -> None:
    assert luid_text(metadata) == luid


class Pdh:
    """pdh.dll as far as it is used, filling the same structures. `growing` makes the first buffer too small."""

    def __init__(self, *, refuses: str = "", growing: bool = False) -> None:
        self.refuses = refuses
        self.growing = growing
        self.items = [("a", 0, 12.5), ("gone", 0xC0000BBA, 9.0), ("new", 1, 250.0)]
        self.formats: list[int] = []
        self.closed = False

    def _status(self, name: str) -> int:
        return -1073738824 if self.refuses == name else 0

    def PdhOpenQueryW(self, source: Any, data: Any, handle: Any) -> int:  # noqa: N802 - Windows' name
        handle._obj.value = 1
        return self._status("open")

    def PdhAddEnglishCounterW(self, query: Any, path: Any, data: Any, counter: Any) -> int:  # noqa: N802 - as above
        counter._obj.value = 2
        return self._status("add")

    def PdhCollectQueryData(self, query: Any) -> int:  # noqa: N802 - as above
        return self._status("collect")

    def PdhGetFormattedCounterArrayW(  # noqa: N802 - as above
        self, counter: Any, form: Any, size: Any, count: Any, buffer: Any
    ) -> int:
        self.formats.append(form.value)
        if self.refuses == "array":
            return self._status("array")
        needed = ctypes.sizeof(hardware_windows._Item) * len(self.items)
        count._obj.value = len(self.items)
        if buffer is None or len(buffer) < needed:
            size._obj.value = needed - 8 if self.growing and buffer is None else needed
            return hardware_windows._MORE_DATA - 2**32  # a signed number, as ctypes gives by default
        array = ctypes.cast(buffer, ctypes.POINTER(hardware_windows._Item))
        for place, (name, status, value) in enumerate(self.items):
            array[place].name = name
            array[place].value.status = status
            array[place].value.double = value
        return 0

    def PdhCloseQuery(self, query: Any) -> None:  # noqa: N802 - as above
        self.closed = True


@pytest.mark.parametrize("growing", [False, True])
def test_valid_values_are_read_uncapped_by_instance(growing: bool) -> None:
    pdh = Pdh(growing=growing)
    query = PdhQuery(pdh)
    counter = query.add(UTILIZATION)
    query.collect()
    assert query.values(counter) == {"a": 12.5, "new": 250.0}
    assert set(pdh.formats) == {0x8200}
    query.close()
    assert pdh.closed


def use_pdh(pdh: Pdh) -> None:
    query = PdhQuery(pdh)
    counter = query.add(UTILIZATION)
    query.collect()
    query.values(counter)


@pytest.mark.parametrize("step", ["open", "add", "collect", "array"])
def test_a_refusal_is_an_os_error_with_its_status(step: str) -> None:
    with pytest.raises(OSError, match=r"not available: PDH refuses .* \(0xC0000BB8\)"):
        use_pdh(Pdh(refuses=step))


def test_the_structures_have_windows_layout() -> None:
    assert ctypes.sizeof(hardware_windows._Value) == 16
    if ctypes.sizeof(ctypes.c_void_p) == 8:
        assert ctypes.sizeof(hardware_windows._Item) == 24


@pytest.mark.skipif(sys.platform != "win32", reason="is about Windows")
def test_the_real_pdh_answers_or_says_why_not() -> None:
    try:
        counters = open_counters("gpu", PID, {})
    except OSError as error:
        assert under_wine(), error  # noqa: PT017 - Wine's PDH knows few counters
        return
    read(counters)
    counters.close()


@pytest.mark.skipif(sys.platform == "win32", reason="is about other systems")
def test_elsewhere_there_is_no_pdh() -> None:
    with pytest.raises(OSError, match="PDH is Windows'"):
        open_counters("gpu", PID, {})
