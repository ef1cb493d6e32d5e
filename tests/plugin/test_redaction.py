"""What a run leaves behind does not tell where folders of the machine are; the terminal may."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.platforms import needs_runtime

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = needs_runtime
PATHS = """
import pathlib

@pytest.mark.winml(model=CNN, target="cpu")
def test_fails(winml):
    raise ValueError(f"{winml.artifact().path} {pathlib.Path(__file__)} {pathlib.Path.home() / 'data'}")

@pytest.mark.winml(model=Model.onnx("models/none.onnx"), target="cpu")
def test_has_no_file(winml):
    winml.artifact()

@pytest.mark.winml(model=CNN, target="cpu")
def test_is_skipped(winml):
    pytest.skip(f"there is no {pathlib.Path(__file__).parent / 'data'}")

@pytest.mark.winml(model=Model.onnx(pathlib.Path("cut.onnx").absolute()), target="cpu")
def test_is_cut(winml):
    winml.artifact()
"""


@pytest.fixture(autouse=True)
def _a_home_that_is_not_the_rootdir(
    pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After pytester, which makes them one."""
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp("ann")))


@pytest.mark.parametrize("jobs", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_no_file_of_a_run_names_a_folder_of_the_machine(
    suite: Callable[[str], pytest.Pytester], report: Callable[[], dict[str, Any]], jobs: tuple[str, ...]
) -> None:
    project = suite(PATHS)
    (project.path / "cut.onnx").write_bytes(b"cut")
    store = project.mkdir("elsewhere") / "store"
    result = project.runpytest(f"--winml-store={store}", *jobs)
    result.assert_outcomes(failed=3, skipped=1)
    items = {item["nodeid"].partition("::")[2].partition("[")[0]: item for item in report()["items"]}
    said = items["test_fails"]["failure"]["message"].replace("\\", "/")
    assert said.startswith("<store>/")
    assert said.endswith("model.onnx test_it.py ~/data")
    assert "model file models" in items["test_has_no_file"]["failure"]["message"]
    assert items["test_is_skipped"]["skip_reason"] == "there is no data"
    _tells_no_folder(project, "report.json")
    result.stdout.fnmatch_lines([f"*{project.path}*"])


def test_build_results_name_no_folder_of_the_machine(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite(PATHS)
    (project.path / "cut.onnx").write_bytes(b"cut")
    project.runpytest("--winml-build-only", "--winml-target=cpu").assert_outcomes(passed=1, failed=2)
    _tells_no_folder(project, "report.json")
    reasons = _tells_no_folder(project, "build_results.json")
    assert "model file models" in reasons


def test_a_damaged_entry_is_named_by_its_place_in_the_store(
    suite: Callable[[str], pytest.Pytester], report: Callable[[], dict[str, Any]]
) -> None:
    project = suite('@pytest.mark.winml(model=CNN, target="cpu")\ndef test_a(winml):\n    winml.artifact()\n')
    project.runpytest("--winml-store=kept").assert_outcomes(passed=1)
    for file in (project.path / "kept").rglob("model.onnx"):
        file.chmod(0o600)
        file.write_bytes(b"damaged")
    project.runpytest("--winml-store=kept").assert_outcomes(passed=1)
    (note,) = report()["items"][0]["notes"]
    assert note.startswith("the store's entry <store>")
    _tells_no_folder(project, "report.json")


def _tells_no_folder(project: pytest.Pytester, name: str) -> str:
    text = (project.path / "reports" / name).read_text(encoding="utf-8").replace("\\\\", "\\")
    for folder in (project.path, Path(tempfile.gettempdir()), Path.home()):
        assert str(folder) not in text
        assert folder.as_posix() not in text
    assert json.loads((project.path / "reports" / name).read_text(encoding="utf-8"))
    return text
