"""The journal and report.json: complete, atomic, also when the run is cut short."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_winml.records.report import SCHEMA_VERSION, RunReport
from pytest_winml.store.journal import read_journal
from tests.platforms import needs_runtime

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = needs_runtime
MIXED = """
@pytest.mark.winml(model=CNN, targets=["cpu"])
def test_passes(winml):
    winml.placement()

@pytest.mark.winml(model=CNN, target="cpu")
def test_fails(winml):
    assert winml.placement().partitions == 99

@pytest.mark.winml(model=CNN, target="vitisai:npu")
def test_skips(winml): ...

@pytest.mark.xfail(reason="known", strict=True)
@pytest.mark.winml(model=CNN, target="cpu")
def test_known(winml):
    raise ValueError

@pytest.fixture
def broken():
    raise OSError("the fixture broke")

@pytest.mark.winml(model=CNN, target="cpu")
def test_error(winml, broken): ...
"""


@pytest.mark.parametrize("jobs", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_every_item_is_in_the_report_with_what_is_known_of_it(
    suite: Callable[[str], pytest.Pytester], report: Callable[[], dict[str, Any]], jobs: tuple[str, ...]
) -> None:
    result = suite(MIXED).runpytest(*jobs)
    result.assert_outcomes(passed=1, failed=1, skipped=1, xfailed=1, errors=1)
    items = {item["nodeid"].partition("::")[2].partition("[")[0]: item for item in report()["items"]}
    assert {name: item["outcome"] for name, item in items.items()} == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_skips": "skipped",
        "test_known": "xfailed",
        "test_error": "error",
    }
    assert items["test_passes"]["placement"]["target_nodes"]
    assert items["test_fails"]["failure"]["error"] == "AssertionError"
    assert "VitisAIExecutionProvider" in items["test_skips"]["skip_reason"]
    assert items["test_error"]["failure"]["message"] == "the fixture broke"
    assert items["test_skips"]["placement"] is None


def test_the_report_is_a_valid_record_with_environment_and_schema(
    suite: Callable[[str], pytest.Pytester], report: Callable[[], dict[str, Any]]
) -> None:
    project = suite(MIXED)
    project.runpytest()
    decoded = msgspec.json.decode(json.dumps(report()), type=RunReport)
    assert decoded.schema_version == SCHEMA_VERSION
    assert decoded.finished is not None
    assert decoded.finished.exit_status == 1
    assert decoded.started.environment.packages["onnx"]
    assert str(project.path) not in json.dumps(report()["items"])


def test_the_report_goes_where_it_is_told(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite(MIXED)
    result = project.runpytest("--winml-report-dir", "out/here")
    assert (project.path / "out" / "here" / "report.json").is_file()
    result.stdout.fnmatch_lines(["report: out?here?report.json"])


def test_collecting_alone_writes_nothing(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite(MIXED)
    project.runpytest("--collect-only")
    assert not (project.path / "reports").exists()


def test_a_run_stopped_by_the_user_leaves_a_report_that_says_so(
    suite: Callable[[str], pytest.Pytester], report: Callable[[], dict[str, Any]]
) -> None:
    project = suite("""
@pytest.mark.winml(model=CNN, target="cpu")
def test_first(winml):
    winml.placement()

@pytest.mark.winml(model=CNN, target="cpu")
def test_second(winml):
    raise KeyboardInterrupt
""")
    result = project.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert report()["finished"]["interrupted"] is True
    assert [item["outcome"] for item in report()["items"]] == ["passed"]


def test_a_killed_run_loses_only_the_test_it_was_in(
    suite: Callable[[str], pytest.Pytester], report: Callable[[], dict[str, Any]]
) -> None:
    project = suite("""
import pathlib, time

@pytest.mark.winml(model=CNN, targets=["cpu"])
def test_first(winml):
    winml.placement()

@pytest.mark.winml(model=CNN, target="cpu")
def test_second(winml):
    pathlib.Path("reached").touch()
    time.sleep(60)
""")
    process = subprocess.Popen([sys.executable, "-m", "pytest", "-q"], cwd=project.path, stdout=subprocess.DEVNULL)
    _wait_for((project.path / "reached").exists)
    process.kill()
    process.wait()
    assert report()["finished"] is None
    (journal,) = (project.path / "reports" / "journal").iterdir()
    assert len(read_journal(journal)) == 2


def _wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.05)


def test_two_runs_at_once_keep_two_journals(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite(MIXED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    runs = [subprocess.Popen(command, cwd=project.path, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [run.wait() for run in runs] == [1, 1]
    journals = list((project.path / "reports" / "journal").iterdir())
    assert [len(read_journal(journal)) for journal in journals] == [7, 7]


def test_a_report_folder_that_cannot_be_made_is_an_error_in_one_line(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite(MIXED)
    (project.path / "file").write_text("")
    result = project.runpytest_subprocess("--winml-report-dir", "file/inside")
    assert result.ret != 0
    assert "choose another --winml-report-dir" in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("build_only", [(), ("--winml-build-only", "--winml-target=cpu")], ids=["run", "build only"])
def test_an_optimization_that_finds_nothing_to_do_is_noted_in_report_and_table(
    suite: Callable[[str], pytest.Pytester], report: Callable[[], dict[str, Any]], build_only: tuple[str, ...]
) -> None:
    project = suite("""
@pytest.mark.winml(model=CNN, recipe=Recipe(optimize=("gelu_fusion",), precision="fp32"), target="cpu")
def test_a(winml):
    winml.artifact()
""")
    for _ in ("built", "reused"):
        result = project.runpytest(*build_only)
        result.assert_outcomes(passed=1)
        note = "optimize=gelu_fusion changed nothing in this graph"
        assert report()["items"][0]["notes"] == [note]
        result.stdout.fnmatch_lines([f"note: {note}*"])
