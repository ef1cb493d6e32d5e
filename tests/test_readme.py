"""What the README shows is true: its commands are CI's, its code runs, its option list is the plugin's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

# A run inside this process forgets the modules it imported, and numpy cannot be imported twice: load it before.
import numpy as np  # noqa: F401
import onnx  # noqa: F401
import pytest

import pytest_winml
from tests.models import conv_relu_matmul, save
from tests.platforms import needs_qnn
from tests.plugin.simulated import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Iterator

README = Path(__file__).parent.parent / "README.md"


def _blocks(language: str) -> Iterator[str]:
    yield from re.findall(rf"^```{language}\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@needs_qnn
def test_the_test_file_it_shows_says_what_it_shows(pytester: pytest.Pytester) -> None:
    (pytester.path / "models").mkdir()
    save(conv_relu_matmul(middle="Hardmax", name="scores"), pytester.path / "models" / "detector.onnx")
    example, target, _ = _blocks("python")
    pytester.makepyfile(test_example=example, target=target)
    result = pytester.runpytest()
    result.assert_outcomes(passed=3, failed=1)
    shown = next(block for block in _blocks("text") if "Hardmax" in block)
    assert shown.splitlines()[0] in result.outlines
    assert shown.splitlines()[1] in result.outlines
    compile(target, "README", "exec")


@needs_qnn
def test_the_timed_tests_it_shows_run(pytester: pytest.Pytester) -> None:
    *_, timed = _blocks("python")
    pytester.makeconftest(SIMULATED)
    pytester.makepyfile(test_timed=timed)
    result = pytester.runpytest_subprocess("--winml-save=main")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["gates not applied:", "*latency 10%: NO_BASELINE. this run makes it: run with*"])


def test_its_option_table_is_the_plugins_option_list(pytester: pytest.Pytester) -> None:
    listed = set(re.findall(r"^\| `(--winml-[a-z-]+)", README.read_text(encoding="utf-8"), re.MULTILINE))
    offered = set(re.findall(r"--winml-[a-z-]+", pytester.runpytest("--help").stdout.str()))
    assert listed == offered


def test_values_of_options_are_written_so_that_they_cannot_move_the_rootdir(pytester: pytest.Pytester) -> None:
    """`--winml-store DIR` with a folder outside would make pytest look for its rootdir above both."""
    flags = set(re.findall(r"(--winml-[a-z-]+)  ", pytester.runpytest("--help").stdout.str()))
    assert "--winml-offline" in flags
    for page in (README, *README.parent.glob("docs/*.md")):
        for option in re.findall(r"(--winml-[a-z-]+) [\w<{/]", page.read_text(encoding="utf-8")):
            assert option in flags, f"{page.name}: {option}= is meant"


def test_a_store_outside_the_project_leaves_the_rootdir_where_it_is(
    pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pytester.makepyfile("def test_a(): ...")
    outside = tmp_path_factory.mktemp("outside")
    result = pytester.runpytest_subprocess(f"--winml-store={outside}", f"--winml-report-dir={outside}")
    result.stdout.fnmatch_lines([f"rootdir: {pytester.path}"])


def test_its_commands_are_the_promised_two(pytester: pytest.Pytester) -> None:
    commands = list(_blocks("console"))
    assert 'pip install -e ".[qnn]" && pytest benchmarks\n' in commands
    assert 'pip install -e ".[qnn,hf,test]" -c constraints.txt && pytest\n' in commands


def test_every_public_name_can_be_had_and_is_documented_by_its_home() -> None:
    for name in pytest_winml.__all__:
        assert getattr(pytest_winml, name).__name__ == name
    assert set(dir(pytest_winml)) == set(pytest_winml.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Modle'"):
        pytest_winml.Modle  # noqa: B018
