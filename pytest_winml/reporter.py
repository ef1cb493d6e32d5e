"""The run's journal and report, and the summary on the terminal."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from pytest_winml.benchmark_bridge import xdist_lines
from pytest_winml.providers.environment import read_environment
from pytest_winml.records.build import BuildOutcome, BuildResults
from pytest_winml.records.report import ItemFinished, RunFinished, RunStarted
from pytest_winml.report.builds import build_lines
from pytest_winml.report.terminal import emulation_lines, summary_lines
from pytest_winml.store.files import write_atomically
from pytest_winml.store.journal import Journal, compose, read_journal
from pytest_winml.version import version

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from pytest_winml.settings import Settings

_INTERRUPTED = 2


class Reporter:
    """Starts its journal with the first result; a run that is killed leaves journal and an unfinished report."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._journal: Journal | None = None
        self._builds: list[BuildOutcome] = []

    @property
    def report_path(self) -> Path:
        return self._settings.report_dir / "report.json"

    def record(self, report: pytest.TestReport) -> None:
        encoded: str | None = getattr(report, "winml", None)
        if encoded is not None:
            entry = msgspec.json.decode(encoded, type=ItemFinished)
            self._open_journal().append(entry)
            if entry.build is not None:
                self._builds.append(entry.build)
                self._write_builds()

    def _open_journal(self) -> Journal:
        if self._journal is None:
            now = datetime.now(UTC)
            run_id = f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
            self._journal = Journal(self._settings.report_dir / "journal" / f"{run_id}.jsonl")
            self._journal.append(
                RunStarted(
                    run_id=run_id,
                    started_at=now.isoformat(timespec="seconds"),
                    plugin_version=version(),
                    environment=read_environment(),
                    settings=self._settings.summary(),
                )
            )
            self._write_report()
        return self._journal

    def finish(self, exit_status: int) -> None:
        if self._journal is None:
            return
        self._journal.append(
            RunFinished(
                finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
                exit_status=exit_status,
                interrupted=exit_status == _INTERRUPTED,
            )
        )
        self._journal.close()
        self._write_report()

    def _write_report(self) -> None:
        if self._journal is not None:
            composed = compose(read_journal(self._journal.path))
            write_atomically(self.report_path, msgspec.json.format(msgspec.json.encode(composed), indent=1) + b"\n")

    def _write_builds(self) -> None:
        """Whole and at once after each case, so that a run that is cut short leaves what it had."""
        if self._journal is not None:
            results = BuildResults(run_id=self._journal.path.stem, outcomes=tuple(self._builds))
            content = msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n"
            write_atomically(self._settings.report_dir / "build_results.json", content)

    def summarize(self, terminal: pytest.TerminalReporter) -> None:
        if self._journal is None:
            return
        terminal.ensure_newline()
        terminal.section("winml")
        if self._config.getoption("dist", "no") != "no":  # the controller has no items, so its header is empty
            composed = compose(read_journal(self._journal.path))
            for line in (*emulation_lines(composed), *xdist_lines(self._config, composed)):
                terminal.write_line(line)
        for line in self._summary_lines(self._journal, _width(terminal)):
            terminal.write_line(line)
        terminal.write_line(f"report: {_shown(self.report_path, self._config)}")

    def _summary_lines(self, journal: Journal, width: int) -> list[str]:
        if self._settings.build_only:
            return build_lines(self._builds, width)
        return summary_lines(compose(read_journal(journal.path)), width)


def _width(terminal: pytest.TerminalReporter) -> int:
    return terminal._tw.fullwidth  # noqa: SLF001 - pytest has no public name for the width it writes in


def _shown(path: Path, config: pytest.Config) -> str:
    return str(path.relative_to(config.rootpath)) if path.is_relative_to(config.rootpath) else str(path)
