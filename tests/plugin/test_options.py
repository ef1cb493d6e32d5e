"""The options that choose cases, and ini settings in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.platforms import needs_runtime

if TYPE_CHECKING:
    from collections.abc import Callable

MATRIX = """
@pytest.mark.winml(models=[CNN, VIT], targets=["cpu", "qnn:npu"])
def test_a(winml): ...

def test_plain(): ...
"""


def _collected(project: pytest.Pytester, *options: str) -> list[str]:
    result = project.runpytest("--collect-only", "-q", *options)
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (("--winml-target", "cpu"), ["digits-cnn-default-cpu", "digits-vit-default-cpu"]),
        (("--winml-target", "npu", "--winml-model", "digits-vit"), ["digits-vit-default-qnn:npu"]),
        (("--winml-model=digits-cnn",), ["digits-cnn-default-cpu", "digits-cnn-default-qnn:npu"]),
    ],
)
def test_target_and_model_restrict_the_cases_and_leave_other_tests(
    suite: Callable[[str], pytest.Pytester], options: tuple[str, ...], kept: list[str]
) -> None:
    assert _collected(suite(MATRIX), *options) == [*(f"test_a[{case}]" for case in kept), "test_plain"]


def test_an_ini_setting_is_the_default_and_the_command_line_wins(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite(MATRIX)
    project.makeini("[pytest]\nwinml_target = cpu\nwinml_model = digits-cnn\n")
    assert _collected(project) == ["test_a[digits-cnn-default-cpu]", "test_plain"]
    assert _collected(project, "--winml-target", "qnn:npu") == ["test_a[digits-cnn-default-qnn:npu]", "test_plain"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--winml-target", "qnn:nup"), "did you mean 'qnn:npu'"),
        (("--winml-require", "qnm"), "unknown target"),
        (("--winml-model", "digits-cn"), "did you mean 'digits-cnn'"),
        (("--winml-timeout", "soon"), "not a number of seconds"),
        (("--winml-ep-library", "qnn"), "is not EP=PATH"),
        (("--winml-ep-library", "qnm=x"), "unknown EP"),
        (("--winml-emulate", "maybe"), "maybe"),
    ],
)
def test_values_that_cannot_be_meant_are_usage_errors(
    suite: Callable[[str], pytest.Pytester], options: tuple[str, ...], said: str
) -> None:
    result = suite(MATRIX).runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in result.stdout.str() + result.stderr.str()


def test_a_model_nobody_has_is_a_usage_error_under_xdist_too(suite: Callable[[str], pytest.Pytester]) -> None:
    result = suite(MATRIX).runpytest("-n", "2", "--winml-model", "digits-cn")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["*did you mean 'digits-cnn'*"])


@needs_runtime
def test_the_time_limit_is_the_one_given(suite: Callable[[str], pytest.Pytester]) -> None:
    project = suite("""
import psutil

@pytest.mark.winml(model=CNN, target="cpu")
def test_hangs(winml):
    with winml.session() as session:
        psutil.Process(session._session._worker.pid).suspend()
        session.run()

@pytest.mark.winml(model=CNN, target="cpu")
def test_goes_on(winml_session):
    assert winml_session.run()["logits"].shape == (1, 10)
""")
    result = project.runpytest("--winml-timeout", "3")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*WorkerTimedOut*run*3*"])
