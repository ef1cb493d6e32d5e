"""One pytest run with winml items: selecting, gating and carrying each item's findings to its report."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_winml import units
from pytest_winml.building import BuildItem, build_items
from pytest_winml.collection import collection_problems
from pytest_winml.errors import TargetAbsent, WinmlError, WorkerError, unknown_name
from pytest_winml.execute.pool import WorkerPool
from pytest_winml.execute.redaction import ROOTDIR, Places
from pytest_winml.execute.rwlock import DeviceLocks
from pytest_winml.keys import FAILURE, LATENCY, PHASES, RUNNER, TRACER
from pytest_winml.marks import gate_of
from pytest_winml.measure.recording import Recordings
from pytest_winml.options import read_settings
from pytest_winml.outcomes import encoded, finished_item, hide_our_frames, message_only, reason_of
from pytest_winml.pipeline.pipeline import Pipeline
from pytest_winml.providers.distributions import runtime_install
from pytest_winml.records.gate import Gate
from pytest_winml.records.target import ALL_TARGETS
from pytest_winml.report.assertions import explain
from pytest_winml.report.cache import damage_sentence
from pytest_winml.report.header import header_lines
from pytest_winml.reporter import Reporter
from pytest_winml.runner.case import CaseRunner
from pytest_winml.session.machine import Machine
from pytest_winml.session.messages import ProviderSettings
from pytest_winml.session.window import Windows
from pytest_winml.store.artifacts import ArtifactStore, default_root

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_winml.latency import TimingDesk, WinmlLatency
    from pytest_winml.records.artifact import Artifact
    from pytest_winml.records.case import Case
    from pytest_winml.records.measurement import Memory
    from pytest_winml.records.store import Damage
    from pytest_winml.runner.tracing import CaseTracer
    from pytest_winml.settings import Settings

_RAN_TO_THE_END = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


def start(config: pytest.Config) -> WinmlRun:
    try:
        return WinmlRun(config, read_settings(config))
    except WinmlError as error:
        raise pytest.UsageError(str(error)) from error


class WinmlRun:
    """Registered when there is something to run. Workers and files go when pytest ends; logs of lost workers stay."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self.settings = settings
        self._started = time.monotonic()
        self._timed_items = 0
        self._windows = Windows()
        self._remarks: list[str] = []  # what befell the store during the current item
        self._keep_logs = False  # set when a worker misbehaved: its error names the log
        is_worker = hasattr(config, "workerinput")
        self._reporter = None if is_worker else Reporter(config, settings)

    @cached_property
    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="winml-"))

    @property
    def _store_root(self) -> Path:
        return self.settings.store or default_root()

    @cached_property
    def _places(self) -> Places:
        """What reports say for folders of this machine."""
        named = [
            (self.settings.rootdir, ROOTDIR),
            (self._store_root, "<store>"),
            (self._folder, "<scratch>"),
            (Path(tempfile.gettempdir()), "<temp>"),
        ]
        if sys.prefix != sys.base_prefix:  # a Python of the system lies in folders that everybody has
            named.append((Path(sys.prefix), "<python>"))
        return Places(named)

    @cached_property
    def _pool(self) -> WorkerPool:
        return WorkerPool(self._folder / "workers")

    @cached_property
    def machine(self) -> Machine:
        chosen = ProviderSettings(
            ep_libraries=self.settings.ep_libraries,
            emulate=self.settings.emulate,
            offline=self.settings.offline,
        )
        return Machine(self._pool, chosen, timeout_s=self.settings.timeout_s)

    @cached_property
    def _pipeline(self) -> Pipeline:
        scratch = self._folder / "models"
        scratch.mkdir()
        return Pipeline(
            ArtifactStore(self._store_root, on_damage=self._report_damage, on_wait=self._say),
            self._pool,
            self.machine,
            rootdir=self.settings.rootdir,
            scratch=scratch,
            timeout_s=self.settings.timeout_s,
            offline=self.settings.offline,
            on_stage=self._progress,
            beside_others=self._building,
        )

    @cached_property
    def _locks(self) -> DeviceLocks:
        return DeviceLocks()

    def _building(self) -> AbstractContextManager[None]:
        """A stage waits while anybody on this machine times."""
        return self._locks.building(lambda: self._say("a build waits until a timing on this machine has ended"))

    @cached_property
    def _recordings(self) -> Recordings:
        return Recordings(self.settings.report_dir / "sessions", resume=self.settings.timing.resume)

    @cached_property
    def _timing(self) -> TimingDesk:
        from pytest_winml.latency import TimingDesk

        if self._recordings.interrupted and not self.settings.timing.resume:
            self._say("an interrupted run has left timed sessions; --winml-resume goes on with them")
        return TimingDesk(
            self.settings.timing,
            self.machine,
            self._pool,
            recordings=self._recordings,
            timeout_s=self.settings.timeout_s,
            timed_items=self._timed_items,
            workers=int(getattr(self._config, "workerinput", {}).get("workercount", 1)),
            locks=self._locks,
            on_progress=self._show,
            on_wait=self._show,
        )

    def tracer(self, item: pytest.Item) -> CaseTracer:
        """What an item is traced with; the windows of a run are opened one at a time."""
        if TRACER not in item.stash:
            from pytest_winml.runner.tracing import CaseTracer

            item.stash[TRACER] = CaseTracer(item.stash[RUNNER], self._windows, beside_others=self._building)
        return item.stash[TRACER]

    def memory(self, item: pytest.Item) -> Memory:
        if LATENCY in item.stash:
            return item.stash[LATENCY].memory()
        return self._latency(item, Gate(), rerun="").memory()

    def _latency(self, item: pytest.Item, gate: Gate, *, rerun: str) -> WinmlLatency:
        return self._timing.latency(
            item.stash[RUNNER], gate, name=item.nodeid, rerun=rerun, tracer=lambda: self.tracer(item)
        )

    def begin_timing(self, item: pytest.Item) -> WinmlLatency:
        """The object a timed test holds; where time means nothing the test is skipped."""
        runner = item.stash[RUNNER]
        if runner.check_target().mode == "emulated":
            pytest.skip(
                f"{runner.case.target.spec} is emulated here, and times of an emulator mean nothing. "
                "To run it: use a machine that has the device"
            )
        rerun = f"pytest {shlex.quote(item.nodeid)}"
        if self.settings.timing.baseline:
            rerun += f" --winml-baseline={shlex.quote(self.settings.timing.baseline)}"
        gate = gate_of(item.iter_markers("winml_gate"))
        latency = item.stash[LATENCY] = self._latency(item, gate, rerun=rerun)
        return latency

    def end_timing(self, item: pytest.Item) -> None:
        """What a test that passed has measured becomes the baseline, if one is to be saved."""
        name = self.settings.timing.save
        passed = all(phase.passed for phase in item.stash[PHASES])
        latency = item.stash[LATENCY]
        if name is not None and passed and latency.measured is not None:
            latency.save(name)
            self._remarks.append(f"saved as baseline {name}")

    def _build(self, case: Case) -> Artifact:
        return self._pipeline.build(case)

    def _report_damage(self, damage: Damage) -> None:
        sentence = damage_sentence(damage)
        self._remarks.append(sentence)
        self._say(sentence)

    def _say(self, sentence: str) -> None:
        """One line on the terminal while tests run."""
        terminal: pytest.TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            with self._uncaptured():
                terminal.write_line(f"winml: {sentence}")

    def _uncaptured(self) -> AbstractContextManager[None]:
        """While a test runs pytest captures what is written, the terminal's own lines too."""
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        return nullcontext() if capture is None else capture.global_and_fixture_disabled()

    def _progress(self, model: str, stage: str) -> None:
        self._show(f"building {model}: {stage}")

    def _show(self, what: str) -> None:
        """What is under way: a line the next one overwrites on a terminal, a plain one with -v elsewhere."""
        terminal: pytest.TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None or self._config.get_verbosity() < 0:
            return
        line = f"winml: {what} ({units.seconds(time.monotonic() - self._started)} into the run)"
        with self._uncaptured():
            if terminal.isatty:
                terminal.rewrite(f"{line} ", erase=True)
            elif self._config.get_verbosity() > 0:
                terminal.write_line(line)

    @property
    def build_targets(self) -> tuple[str, ...]:
        """What a build-only run builds for: what the user names, or every target there is."""
        return self.settings.targets or ALL_TARGETS

    def select(self, items: list[pytest.Item]) -> list[str]:
        """Keeps the cases that --winml-target and --winml-model ask for; answers with names that no case has."""
        known = {case.model.name for case in map(case_of, items) if case}
        unknown = [name for name in self.settings.models if name not in known]
        if unknown:
            return [str(unknown_name("model in --winml-model", name, known)) for name in unknown]
        problems = collection_problems((item.nodeid, case_of(item)) for item in items)
        if problems:
            return problems
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            case = case_of(item)
            chosen = case is None or self.settings.selects(case.model.name, case.target)
            (kept if chosen else dropped).append(item)
        if dropped:
            self._config.hook.pytest_deselected(items=dropped)
            items[:] = kept
        self._timed_items = sum("winml_latency" in getattr(item, "fixturenames", ()) for item in items)
        if self.settings.build_only:
            build_items(items, case_of, self._build)
        return []

    def pytest_report_collectionfinish(self, items: list[pytest.Item]) -> list[str]:
        targets = {case.target.id: case.target for case in map(case_of, items) if case}
        if not targets or self._config.get_verbosity() < 0:
            return []
        if self.settings.build_only:
            return [f"winml: building for {', '.join(targets)}; nothing is run"]
        runtime = runtime_install()
        name = " + ".join(map(str, runtime.distributions)) or "no ONNX Runtime"
        if runtime.problem:
            return header_lines(f"{name}: {runtime.problem}. {runtime.remedy}", [])
        if self._config.getoption("collectonly"):
            return header_lines(name, [])
        return header_lines(name, [(one, self.machine.availability(one)) for one in targets.values()])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        case = case_of(item)
        if case is None:
            return
        runner = item.stash[RUNNER] = CaseRunner(case, self.machine, self._pipeline)
        item.stash[PHASES] = []
        if isinstance(item, BuildItem):
            return
        answer = runner.check_target()
        if answer.mode == "absent" and not self.settings.requires(case.target):
            pytest.skip(f"{answer.reason}. To run it: {answer.remedy}" if answer.remedy else answer.reason)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """A target that is broken, or required and absent, fails the test that asked for it."""
        runner = item.stash.get(RUNNER, None)
        if runner is not None and not isinstance(item, BuildItem):
            answer = runner.check_target()
            if answer.mode == "absent":
                wanted = f"{runner.case.target.spec} is required (--winml-require) and absent: {answer.reason}"
                raise TargetAbsent(wanted, remedy=answer.remedy or None)
            runner.resolved_target()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        at_a_line = True
        if call.excinfo is not None and not self._config.getoption("fulltrace"):
            at_a_line = hide_our_frames(call.excinfo.value)
        report = yield
        if call.excinfo is not None and report.failed and not at_a_line:
            report.longrepr = message_only(call.excinfo)
        runner = item.stash.get(RUNNER, None)
        if runner is None:
            return report
        if report.skipped and not hasattr(report, "wasxfail") and self.settings.requires(runner.case.target):
            _fail_a_required_skip(report, runner.case)
        if call.excinfo is not None:
            item.stash[FAILURE] = call.excinfo.value
            self._keep_logs |= isinstance(call.excinfo.value, WorkerError)
        item.stash[PHASES].append(report)
        if report.when == "teardown":
            entry = finished_item(
                item.nodeid,
                runner,
                item.stash[PHASES],
                item.stash.get(FAILURE, None),
                build=item.outcome if isinstance(item, BuildItem) else None,
                timed=item.stash.get(LATENCY, None),
                traces=item.stash[TRACER].traces if TRACER in item.stash else (),
                remarks=self._remarks,
            )
            self._remarks.clear()
            report.winml = encoded(entry, self._places)  # type: ignore[attr-defined]
        return report

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> list[str] | None:
        return explain(op, left, right)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._reporter is not None:
            self._reporter.record(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._reporter is not None:
            self._reporter.finish(int(exitstatus))
        if "_recordings" in self.__dict__ and int(exitstatus) in _RAN_TO_THE_END:
            self._recordings.discard()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._reporter is not None:
            self._reporter.summarize(terminalreporter)

    def pytest_unconfigure(self) -> None:
        if "_pool" in self.__dict__:
            self._pool.close()
        if "_folder" in self.__dict__ and not self._keep_logs:
            shutil.rmtree(self._folder, ignore_errors=True)


def case_of(item: pytest.Item) -> Case | None:
    if isinstance(item, BuildItem):
        return item.case
    callspec = getattr(item, "callspec", None)
    case: Case | None = callspec.params.get("winml_case") if callspec else None
    return case


def _fail_a_required_skip(report: pytest.TestReport, case: Case) -> None:
    reason = reason_of(report)
    report.outcome = "failed"
    report.longrepr = f"{case.target.spec} is required (--winml-require), and this test was skipped: {reason}"
