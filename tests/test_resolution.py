"""The extras against the package index: skipped, with the reason, where uv or the index is out of reach."""

from __future__ import annotations

import re

import pytest

from pytest_winml.providers.distributions import RUNTIME_NAMES
from tools import check_resolution
from tools.check_resolution import CONSTRAINTS, EXPECTATIONS, Combination, Resolution, project_extras, violations

QNN_ON_WINDOWS = Combination(platform="win_amd64", python="3.13", extras=("qnn",))
HF_ON_ARM = Combination(platform="win_arm64", python="3.13", extras=("hf",))


def resolved(*packages: str) -> Resolution:
    return Resolution(packages=frozenset(packages))


def uv_or_skip() -> list[str]:
    uv = check_resolution.find_uv()
    if uv is None:
        pytest.skip("uv is not installed: pip install uv")
    return uv


def test_the_small_set_resolves_with_one_runtime_each(capsys: pytest.CaptureFixture[str]) -> None:
    status = check_resolution.check(check_resolution.SMALL, uv_or_skip())
    table = capsys.readouterr().out
    if status == 2:
        pytest.skip(table.strip())
    assert status == 0, f"\n{table}"


def test_two_extras_that_clash_are_seen_to_clash_by_the_real_resolver() -> None:
    """The proof that the table above could fail."""
    both = Combination(platform="win_amd64", python="3.13", extras=("qnn", "windowsml"))
    resolution = check_resolution.resolve(both, uv_or_skip())
    if not resolution.reached:
        pytest.skip(str(resolution.refusal))
    assert violations(both, resolution) == [
        "two runtimes in one environment: onnxruntime, onnxruntime-windowsml",
    ]


def test_the_constraints_hold_everything_that_the_extras_install() -> None:
    everything = Combination(
        platform="linux_x86_64", python="3.11", extras=("qnn", "hf", "test", "benchmark"), constrained=True
    )
    resolution = check_resolution.resolve(everything, uv_or_skip())
    if not resolution.reached:
        pytest.skip(str(resolution.refusal))
    # torch for the CPU, which is the tested one, has none of these; the one of the public index has them all.
    gpu_only = {name for name in resolution.packages if name.startswith(("nvidia-", "cuda-", "triton"))}
    assert resolution.packages - gpu_only <= pinned_names()
    assert {"onnxruntime-ep-openvino", "onnxruntime-openvino"} <= pinned_names()


@pytest.mark.parametrize("platform", ["win_amd64", "win_arm64"])
def test_the_constraints_hold_everything_that_a_windows_device_installs(platform: str) -> None:
    device = Combination(platform=platform, python="3.13", extras=("windowsml",), constrained=True)
    resolution = check_resolution.resolve(device, uv_or_skip())
    if not resolution.reached:
        pytest.skip(str(resolution.refusal))
    assert violations(device, resolution) == []
    assert resolution.packages <= pinned_names()


def test_the_constraints_are_exact_sorted_and_free_of_build_labels() -> None:
    lines = [line for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert lines == sorted(lines, key=lambda line: line.partition("==")[0])
    for line in lines:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*==[0-9][0-9.]*", line), line


def pinned_names() -> set[str]:
    text = CONSTRAINTS.read_text(encoding="utf-8")
    return {line.partition("==")[0] for line in text.splitlines() if "==" in line and not line.startswith("#")}


def test_an_index_that_cannot_be_reached_is_not_a_verdict_about_the_extras(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uv = uv_or_skip()
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    assert check_resolution.check([QNN_ON_WINDOWS], uv) == 2
    assert "could not be asked" in capsys.readouterr().out


def test_the_tool_and_the_package_agree_on_what_a_runtime_is() -> None:
    assert set(RUNTIME_NAMES) >= check_resolution.RUNTIMES


def test_every_extra_of_the_project_has_an_expectation() -> None:
    assert set(project_extras()) <= EXPECTATIONS.keys()


def test_the_full_set_covers_every_extra_platform_and_python_and_the_small_set_is_small() -> None:
    everything = check_resolution.all_combinations(project_extras())
    for extra in (*project_extras(), None):
        for platform in ("win_amd64", "win_arm64", "linux_x86_64", "linux_aarch64"):
            for python in ("3.11", "3.13"):
                wanted = (extra,) if extra else ()
                assert Combination(platform=platform, python=python, extras=wanted) in everything
    assert len(check_resolution.SMALL) <= 8
    assert set(check_resolution.SMALL) <= set(everything)


@pytest.mark.parametrize(
    ("combination", "resolution", "complaint"),
    [
        (QNN_ON_WINDOWS, resolved("onnxruntime", "onnxruntime-qnn"), None),
        (QNN_ON_WINDOWS, resolved("onnxruntime"), "qnn lacks onnxruntime-qnn"),
        (QNN_ON_WINDOWS, resolved("onnxruntime-qnn"), "runtime none, expected onnxruntime"),
        (QNN_ON_WINDOWS, resolved("onnxruntime-qnn", "onnxruntime", "onnxruntime-gpu"), "two runtimes"),
        (QNN_ON_WINDOWS, Resolution(refusal="No solution found"), "does not resolve: No solution found"),
        (HF_ON_ARM, resolved("pytest"), None),
        (HF_ON_ARM, resolved("pytest", "torch"), "hf should not bring torch here"),
        (Combination(platform="linux_x86_64", python="3.11"), resolved("onnxruntime"), "expected none"),
        (Combination(platform="linux_x86_64", python="3.11", extras=("new",)), resolved(), "no expectation"),
    ],
)
def test_each_rule_of_the_table_can_fail(
    combination: Combination, resolution: Resolution, complaint: str | None
) -> None:
    found = "; ".join(violations(combination, resolution))
    assert (complaint in found) if complaint else found == ""


def test_the_table_says_where_an_extra_is_empty_on_purpose() -> None:
    assert "hf is empty here, as it should be" in check_resolution.row(HF_ON_ARM, resolved("pytest"), [])
