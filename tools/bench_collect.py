"""What having the plugin installed costs a project that does not use it, next to what pytest-benchmark costs it.

    python tools/bench_collect.py [--rounds 21] [--tests 200]

`pytest --collect-only` of a made-up project runs in fresh processes with three sets of plugins: none, only
pytest-winml, only pytest-benchmark. Every round runs all three in a random order, and only differences within a round
are compared, so that a busy or throttling machine hits all three alike.

Exit status: 0 fine, 1 pytest-winml adds more than pytest-benchmark beyond the noise (the whole 95 % interval of the
difference is above zero), 2 not both plugins are installed.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MIN_ROUNDS = 15
RESAMPLES = 5000
LEVEL = 0.95

# Name of the set → the plugin it leaves on, by its entry point; None leaves none on.
ARMS: dict[str, str | None] = {"no plugin": None, "pytest-winml": "winml", "pytest-benchmark": "benchmark"}


def installed_plugins() -> set[str]:
    return {entry.name for entry in metadata.entry_points(group="pytest11")}


def write_project(folder: Path, tests: int) -> None:
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    per_file = 20
    for start in range(0, tests, per_file):
        body = "".join(
            f"def test_{n}():\n    assert {n} >= 0\n\n\n" for n in range(start, min(start + per_file, tests))
        )
        (folder / f"test_part_{start}.py").write_text(body, encoding="utf-8")


def command(plugin: str | None, plugins: set[str]) -> list[str]:
    """Every other plugin of the environment is off in all sets: it would only add noise."""
    off = sorted(plugins - {plugin})
    return [
        *(sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"),
        *(part for name in off for part in ("-p", f"no:{name}")),
    ]


def time_one(arguments: list[str], folder: Path, tests: int) -> float:
    """Seconds; a run that did not collect the project is an error and not a time."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
    start = time.perf_counter()
    child = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    elapsed = time.perf_counter() - start
    if child.returncode != 0 or f"{tests} tests collected" not in child.stdout:
        raise SystemExit(f"collection failed: {' '.join(arguments)}\n{child.stdout[-2000:]}{child.stderr[-2000:]}")
    return elapsed


def measure(rounds: int, tests: int, seed: int) -> dict[str, list[float]]:
    """Milliseconds per set, one per round; the warm-up round, which writes byte code, is not kept."""
    order = list(ARMS)
    shuffler = random.Random(seed)  # noqa: S311  # an order, not a secret
    plugins = installed_plugins()
    times: dict[str, list[float]] = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory(prefix="collect-") as name:
        folder = Path(name)
        write_project(folder, tests)
        for number in range(rounds + 1):
            shuffler.shuffle(order)
            for arm in order:
                elapsed = time_one(command(ARMS[arm], plugins), folder, tests)
                if number:
                    times[arm].append(elapsed * 1000)
    return times


def median_difference(first: list[float], second: list[float], seed: int) -> tuple[float, float, float]:
    """The median over rounds of first minus second, and its percentile bootstrap interval."""
    differences = [a - b for a, b in zip(first, second, strict=True)]
    resampler = random.Random(seed)  # noqa: S311  # resampling, not a secret
    medians = sorted(statistics.median(resampler.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    tail = round(RESAMPLES * (1 - LEVEL) / 2)
    return statistics.median(differences), medians[tail], medians[-tail - 1]


def report(times: dict[str, list[float]], seed: int) -> tuple[list[str], bool]:
    """The lines to print, and whether pytest-winml is the more expensive one beyond the noise."""
    base, ours, theirs = (times[arm] for arm in ARMS)
    lines = []
    for arm, samples in times.items():
        line = f"{arm:<18}{statistics.median(samples):8.1f} ms"
        if arm != "no plugin":
            added, low, high = median_difference(samples, base, seed)
            line += f"   adds {added:+7.1f} ms [{low:+.1f}, {high:+.1f}]"
        lines.append(line)
    difference, low, high = median_difference(ours, theirs, seed)
    worse = low > 0
    verdict = "adds more" if worse else "adds less" if high < 0 else "no difference beyond the noise"
    lines.append(f"pytest-winml minus pytest-benchmark: {difference:+.1f} ms [{low:+.1f}, {high:+.1f}]: {verdict}")
    return lines, worse


def at_least(minimum: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if value < minimum:
            raise argparse.ArgumentTypeError(f"at least {minimum}")
        return value

    return number


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure what the plugin adds to the collection of other projects.")
    parser.add_argument("--rounds", type=at_least(MIN_ROUNDS), default=21)
    parser.add_argument("--tests", type=at_least(2), default=200)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(arguments)
    if missing := {plugin for plugin in ARMS.values() if plugin} - installed_plugins():
        print(f"not installed in this environment: the pytest plugin {', '.join(sorted(missing))}")
        return 2
    times = measure(options.rounds, options.tests, options.seed)
    lines, worse = report(times, options.seed)
    print(f"pytest --collect-only of {options.tests} tests, {options.rounds} rounds, medians and {LEVEL:.0%} intervals")
    print("\n".join(lines))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
