"""A project that does not use the plugin does not notice it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.platforms import needs_runtime

if TYPE_CHECKING:
    import pytest


def test_nothing_is_printed_written_or_imported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import sys

        def test_a():
            heavy = {"onnx", "onnxruntime", "numpy", "torch", "psutil", "msgspec"} & set(sys.modules)
            assert not heavy
            assert "pytest_winml.run" not in sys.modules
    """)
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:benchmark")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*winml:*")
    assert not (pytester.path / "reports").exists()


@needs_runtime
def test_it_works_without_pytest_benchmark_and_without_xdist(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        from pytest_winml import Model

        @pytest.mark.winml(model=Model.embedded("digits-cnn"), target="cpu")
        def test_a(winml_session):
            assert winml_session.run()["logits"].shape == (1, 10)
    """)
    pytester.runpytest_subprocess("-p", "no:benchmark", "-p", "no:xdist").assert_outcomes(passed=1)
