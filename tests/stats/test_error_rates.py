"""A small run of tools/verdict_error_rates.py, and its arithmetic."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import verdict_error_rates
from tools.verdict_error_rates import Trial, device_time, share, wilson

SCRIPT = Path(verdict_error_rates.__file__)


def test_sixty_comparisons_in_every_regime_keep_the_bars() -> None:
    """In a process of its own, which may fork others."""
    kinds = ("slower", "both", "stored", "peers")
    run = subprocess.run(
        [sys.executable, SCRIPT, "--trials", "60", "--jobs", "2", "--kinds", *kinds],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.rstrip().endswith("All bars hold.")
    header = "| figure (% with 95 % bounds) | calm | thermal | dvfs | spikes | logn1 | logn2 | placement |"
    assert header in run.stdout
    for row in ("gate: REGRESSED at +10 %", "interval: truth inside at +0 %", "asv-like", "3 x 500", "Criterion-like"):
        assert f"| {row}" in run.stdout


def test_a_bar_is_broken_only_when_the_bound_excludes_it() -> None:
    assert share("x", "calm", 4, 100, most=0.025).broken is None
    assert share("x", "calm", 9, 100, most=0.025).broken == "x in calm: 9.0%, bar at most 2.5%"
    assert share("x", "calm", 88, 100, least=0.91).broken is None
    assert share("x", "calm", 80, 100, least=0.91).broken == "x in calm: 80.0%, bar at least 91.0%"


def test_bounds_are_those_of_the_tables() -> None:
    assert wilson(50, 2000) == pytest.approx((0.0190, 0.0328), abs=1e-4)
    assert wilson(0, 60) == pytest.approx((0.0, 0.0602), abs=1e-4)


def test_device_time_is_compared_seed_by_seed() -> None:
    reference = [Trial("EQUIVALENT", 50.0 + at % 7) for at in range(100)]
    longer = [Trial("EQUIVALENT", trial.elapsed_s + 1) for trial in reference]
    assert device_time("t", "calm", longer, reference, 1.25).broken is None
    assert device_time("t", "calm", reference, reference, 1.0).broken is None
    assert device_time("t", "calm", longer, reference, 1.0).broken is not None


def test_a_broken_bar_is_the_exit_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(verdict_error_rates, "one", lambda kind, *_: [Trial("REGRESSED", 1.0)] * 4)
    assert verdict_error_rates.main(["--trials", "30", "--jobs", "1", "--kinds", "slower", "--regimes", "calm"]) == 1
    assert "NOT HELD: gate: REGRESSED at +0 % in calm: 100.0%" in capsys.readouterr().out
