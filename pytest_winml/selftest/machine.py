"""The bench of the machine at hand: an artifact on a target, timed as gates time it."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.data.digits import EMBEDDED_MODELS
from pytest_winml.errors import MeasurementError, unknown_name
from pytest_winml.execute.pool import WorkerPool
from pytest_winml.execute.rwlock import DeviceLocks
from pytest_winml.measure.budget import Budget
from pytest_winml.measure.device import WorkerDevice
from pytest_winml.measure.recording import Recordings
from pytest_winml.pipeline.pipeline import Pipeline
from pytest_winml.records.case import Case
from pytest_winml.records.model import Model
from pytest_winml.records.recipe import Recipe
from pytest_winml.runner.case import CaseRunner
from pytest_winml.runner.timing import CaseTimer, Stopwatch
from pytest_winml.session.machine import Machine
from pytest_winml.store.artifacts import ArtifactStore, default_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_winml.measure.comparing import Question
    from pytest_winml.measure.protocols import Protocol
    from pytest_winml.records.latency import Verdict
    from pytest_winml.records.target import Target
    from pytest_winml.session.messages import ProviderSettings

ITSELF = "itself"


class MachineBench:
    def __init__(self, runner: CaseRunner, timer: CaseTimer) -> None:
        self._timer = timer
        self.subject = f"{runner.case.model.name} on {runner.resolved_target().spec}"
        self.most_sessions = timer.protocol.most_sessions

    def compare(self, number: int, question: Question) -> tuple[Verdict, float]:
        timer = self._timer
        verdict = timer.judge(timer.subject, question, against=ITSELF, purpose=f"self-test {number}")
        return verdict, timer.comparisons[-1].device_s


@contextlib.contextmanager
def machine_bench(
    model: str,
    target: Target,
    protocol: Protocol,
    providers: ProviderSettings,
    *,
    timeout_s: float,
    store: Path | None = None,
    locks: DeviceLocks | None = None,
    on_progress: Callable[[str], None],
) -> Iterator[MachineBench]:
    """Built, placed and ready to be timed; what cannot be timed says so before anything is built.

    `locks` other than the machine's own let others build and time meanwhile.
    """
    case = Case(model=_model(model), recipe=Recipe(), target=target)
    turns = locks or DeviceLocks()
    with (
        tempfile.TemporaryDirectory(prefix="winml-", ignore_cleanup_errors=True) as name,
        WorkerPool(Path(name) / "workers") as pool,
    ):
        folder = Path(name)
        machine = Machine(pool, providers, timeout_s=timeout_s)
        pipeline = Pipeline(
            ArtifactStore(store or default_root()),
            pool,
            machine,
            rootdir=Path.cwd(),
            scratch=folder,
            timeout_s=timeout_s,
            offline=providers.offline,
            on_stage=lambda model, stage: on_progress(f"building {model}: {stage}"),
            beside_others=lambda: turns.building(lambda: on_progress("waiting: others time on this machine")),
        )
        runner = CaseRunner(case, machine, pipeline)
        _refuse_an_emulator(runner)
        stopwatch = Stopwatch(
            device=WorkerDevice(
                pool,
                providers,
                timeout_s=timeout_s,
                exclusive=lambda device: turns.timing(
                    device, lambda: on_progress(f"waiting for the {device}: others build or time")
                ),
            ),
            protocol=protocol,
            budget=Budget(None, 1),
            recordings=Recordings(folder / "sessions", resume=False),
            on_progress=on_progress,
        )
        timer = CaseTimer(runner, stopwatch, name="selftest")
        timer.subject  # noqa: B018 - builds and places it, so that the first comparison does not wait for that
        timer.canary  # noqa: B018
        yield MachineBench(runner, timer)


def _model(name: str) -> Model:
    if name.endswith(".onnx"):
        return Model.onnx(name)
    if name not in EMBEDDED_MODELS:
        raise unknown_name("embedded model", name, EMBEDDED_MODELS)
    return Model.embedded(name)


def _refuse_an_emulator(runner: CaseRunner) -> None:
    runner.resolved_target()
    if runner.check_target().mode == "emulated":
        raise MeasurementError(
            f"{runner.case.target.spec} is emulated here, and times of an emulator mean nothing",
            remedy="test the harness with --target cpu, or on a machine that has the device.",
        )
