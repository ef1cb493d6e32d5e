"""The worker's side of a timed session: one fresh process, all arms of it, and nothing beside.

The timed session is the one whose placement is proven. Neither the runtime's assignment record nor QNN's op trace does
anything after creation (measured: no difference per run), while a profiler multiplies a short latency.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import MeasurementError, RunFailed, WinmlError
from pytest_winml.execute.log import current_offset, read_slice
from pytest_winml.records.latency import Arm, Block
from pytest_winml.session.machine import not_on_target
from pytest_winml.session.opening import open_session
from pytest_winml.session.process import ProcessProviders, import_ort
from pytest_winml.session.tensors import from_message
from pytest_winml.session.timing import (
    Warmed,
    check_times,
    quiet_collector,
    sized_blocks,
    time_block,
    time_slowed_block,
    warm_up,
)
from pytest_winml.session.timing_conditions import Growth, Watch, growth, peak_memory_bytes, schedule_for_timing
from pytest_winml.session.timing_messages import (
    ArmLoad,
    TimedRequest,
    TimedSession,
)

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_winml.providers.binding import Binding
    from pytest_winml.records.placement import Placement
    from pytest_winml.session.timing_messages import Conditions, TimedArm

# Options of EPs that make every run slower, and what leaves them harmless.
_PROFILING = {"profiling_level": ("", "off"), "ai_analyzer_profiling": ("", "0", "false")}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """An arm with its session open and its inputs bound; `run(binding)` is one inference."""

    name: Arm
    placement: Placement
    run: Callable[[Any], object]
    binding: Any
    growth: Growth
    first_run_ns: int
    read_log: Callable[[], str]


class TimingService:
    def __init__(self, directory: Path, log_path: Path) -> None:
        self._directory = directory
        self._log_path = log_path

    def measure(self, request: TimedRequest) -> TimedSession:
        scheduling = schedule_for_timing()
        providers = ProcessProviders(import_ort(), request.settings)
        bound = [(arm, *providers.bind(arm.target)) for arm in request.arms]
        for arm, binding, _ in bound:
            _require_timeable(arm, binding)
        ready = {
            arm.name: self._ready(arm, binding, device, self._directory / f"arm-{number}")
            for number, (arm, binding, device) in enumerate(bound, 1)
        }
        time.sleep(request.cool_down_s)
        with quiet_collector():
            warmed = {name: _warm(one, request) for name, one in ready.items()}
            peak = peak_memory_bytes() if len(ready) == 1 else None
            sizes = _sizes(request, warmed)
            watch = Watch(scheduling)
            times = [_time(ready[name], size, request.slow_down.get(name, 0.0)) for name, size in sizes]
            conditions = watch.end()
        return _answer(ready, warmed, peak, list(zip(sizes, times, strict=True)), conditions)

    def _ready(self, arm: TimedArm, binding: Binding, device: Any, folder: Path) -> _Ready:
        ort = import_ort()
        folder.mkdir()
        start = current_offset(self._log_path)
        read_log = partial(read_slice, self._log_path, start)
        grown = Growth()
        opened = open_session(
            ort,
            binding,
            device,
            model_path=Path(arm.model_path),
            trace_folder=folder,
            read_log=read_log,
            around_creation=growth(grown),
        )
        if not opened.placement.on_target:
            raise not_on_target(opened.placement)
        run = opened.session.run_with_iobinding
        with _failures_named(arm.name, read_log):
            io_binding = _bind_values(ort, opened.session, arm)
            first = time_block(run, io_binding, 1)
        check_times(first, f"the first run of arm {arm.name}")
        return _Ready(
            name=arm.name,
            placement=opened.placement,
            run=run,
            binding=io_binding,
            growth=grown,
            first_run_ns=first[0],
            read_log=read_log,
        )


def _warm(arm: _Ready, request: TimedRequest) -> Warmed:
    with _failures_named(arm.name, arm.read_log):
        return warm_up(arm.run, arm.binding, request.warm_up, f"the warm-up of arm {arm.name}")


def _time(arm: _Ready, iterations: int, slow_down: float) -> array[int]:
    with _failures_named(arm.name, arm.read_log):
        if slow_down:
            return time_slowed_block(arm.run, arm.binding, iterations, slow_down)
        return time_block(arm.run, arm.binding, iterations)


@contextmanager
def _failures_named(arm: Arm, read_log: Callable[[], str]) -> Iterator[None]:
    try:
        yield
    except WinmlError:
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise RunFailed(f"arm {arm} cannot be timed, an inference failed: {text}", log_tail=read_log()) from error


def _require_timeable(arm: TimedArm, binding: Binding) -> None:
    if binding.emulated:
        raise MeasurementError(
            f"{arm.target.spec} is emulated here: an emulated run can never produce a latency",
            remedy="time it on a machine that has the device; placement, traces and accuracy hold as they are.",
        )
    for option, harmless in _PROFILING.items():
        if (value := binding.options.get(option, "")).lower() not in harmless:
            raise MeasurementError(
                f"{arm.target.spec} with {option}={value} would time the profiler too",
                remedy=f"leave {option} out of a timed target.",
            )


def _bind_values(ort: Any, session: Any, arm: TimedArm) -> Any:
    """Inputs are copied once, into memory that numpy aligns; outputs are the runtime's, in host memory."""
    io_binding = session.io_binding()
    for name, tensor in arm.feeds.items():
        io_binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(from_message(tensor).copy()))
    for output in session.get_outputs():
        io_binding.bind_output(output.name, "cpu")
    return io_binding


def _sizes(request: TimedRequest, warmed: Mapping[Arm, Warmed]) -> tuple[tuple[Arm, int], ...]:
    latency_ns = {name: one.median_ns * (1 + request.slow_down.get(name, 0.0)) for name, one in warmed.items()}
    return sized_blocks(
        request.blocks,
        latency_ns,
        block_ns=request.block_ns,
        least=request.min_block_iterations,
        most=request.max_block_iterations,
    )


def _answer(
    ready: Mapping[Arm, _Ready],
    warmed: Mapping[Arm, Warmed],
    peak: int | None,
    timed: Sequence[tuple[tuple[Arm, int], array[int]]],
    conditions: Conditions,
) -> TimedSession:
    for number, ((name, _), times) in enumerate(timed, 1):
        check_times(times, f"block {number}, of arm {name}")
    return TimedSession(
        arms=tuple(_load(one, warmed[name], peak) for name, one in ready.items()),
        blocks=tuple(Block(arm=name, times_ns=tuple(times)) for (name, _), times in timed),
        conditions=conditions,
    )


def _load(arm: _Ready, warmed: Warmed, peak: int | None) -> ArmLoad:
    return ArmLoad(
        name=arm.name,
        placement=arm.placement,
        create_ns=arm.growth.elapsed_ns,
        first_run_ns=arm.first_run_ns,
        warm_up_iterations=warmed.iterations,
        warm_up_ns=warmed.elapsed_ns,
        warm_up_converged=warmed.converged,
        warm_up_median_ns=warmed.median_ns,
        load_memory_bytes=arm.growth.memory_bytes,
        peak_memory_bytes=peak,
        threads=arm.growth.threads,
    )
