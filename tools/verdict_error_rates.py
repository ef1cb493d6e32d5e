"""How often verdicts are wrong, and what they cost, on the simulated device: ours and by the rules of other tools.

    python tools/verdict_error_rates.py                          # 2,000 comparisons of each kind, a quarter of an hour
    python tools/verdict_error_rates.py --trials 60 --kinds slower both stored

Seven regimes of noise, a 5 ms model, 3 s to create and warm an arm. "At 0 %" both arms are alike, "at +10 %" the
candidate is ten per cent slower. Device time is compared with the design this one started from (looks at 6, 8, 10, 12
and 16 sessions, no margin at early ones, two sessions of 8 quads, then up to 24 by the scatter), run on the same
devices with the same seeds and locations; published for it is a mean of 52 s (calm) to 129 s (log-normal, CV 2).

Exit status: 0 all bars hold, 1 the 95 % bound of a figure excludes its bar.
"""

from __future__ import annotations

import argparse
import math
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pytest_winml.simulator.device import SimulatedDevice
from pytest_winml.simulator.regimes import SEVEN
from pytest_winml.stats.blocks import read_session
from pytest_winml.stats.canary_pairs import CanaryPairedTest
from pytest_winml.stats.paired import PairedTest, draw_session
from pytest_winml.stats.planning import Sizes
from pytest_winml.stats.sign_flip import Looks
from pytest_winml.stats.stored import compare_stored
from tools.peer_rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_winml.records.latency import SessionPlan, Verdict

LATENCY_NS = 5_000_000
SLOWDOWN = 0.10
# Seeds below are for tuning; a run of this script begins here.
FIRST_SEED = 700_000_000
DEVICE_SEED = 1_000_000_000  # added, so that a device and a test never draw the same numbers
STORED_SESSIONS, NEW_SESSIONS, STORED_QUADS = 12, 8, 8
Z = 1.959964

REFERENCE_LOOKS = Looks(at=(6, 8, 10, 12, 16))
REFERENCE_SIZES = Sizes(first_quads=8, pilot_sessions=2, most_quads=24)

Kind = Literal["slower", "both", "reference", "canary", "stored", "peers"]


@dataclass(frozen=True)
class Trial:
    outcome: str  # of a peer's rule: REGRESSED or nothing
    elapsed_s: float = 0.0
    below: bool = False  # the truth lies below the interval
    above: bool = False


def paired(test: PairedTest | CanaryPairedTest, device: SimulatedDevice, truth: float) -> Trial:
    while test.verdict is None:
        test.add(device.run(test.next_session()))
    return _trial(test.verdict, device.elapsed_s, truth)


def _trial(verdict: Verdict, elapsed_s: float, truth: float) -> Trial:
    low, high = verdict.interval or (-math.inf, math.inf)
    return Trial(verdict.outcome, elapsed_s, truth < low, truth > high)


def stored(device: SimulatedDevice, seed: int, truth: float) -> Trial:
    """Twelve sessions of the baseline one day, eight of the candidate another; the device time is today's."""
    lot = np.random.default_rng(seed)

    def ratio(arm: str) -> float:
        plan: SessionPlan = draw_session(lot, device.sessions + 1, STORED_QUADS, 25, arms=(arm, "canary"))
        return read_session(plan, device.run(plan)).difference("p50", arm, "canary")

    before = [ratio("A") for _ in range(STORED_SESSIONS)]
    device.new_day()
    started_s = device.elapsed_s
    after = [ratio("B") for _ in range(NEW_SESSIONS)]
    return _trial(compare_stored(before, after), device.elapsed_s - started_s, truth)


def one(kind: Kind, regime: str, truth: float, seed: int) -> list[Trial]:
    """One comparison of a kind; of all peers for their kind."""

    def device() -> SimulatedDevice:
        return SimulatedDevice(regime, seed=DEVICE_SEED + seed, latency_ns=LATENCY_NS, slowdown=truth)

    if kind == "peers":
        trials = []
        for rule in RULES.values():
            used = device()
            trials.append(Trial("REGRESSED" if rule(used) else "", used.elapsed_s))
        return trials
    if kind == "stored":
        return [stored(device(), seed, truth)]
    test: PairedTest | CanaryPairedTest
    if kind == "canary":
        test = CanaryPairedTest(seed=seed, alternative="slower", latency_hint_ns=LATENCY_NS)
    elif kind == "reference":
        test = PairedTest(
            seed=seed, alternative="slower", latency_hint_ns=LATENCY_NS, looks=REFERENCE_LOOKS, sizes=REFERENCE_SIZES,
            precision=0.2, early_margin=0.0,
        )  # fmt: skip
    else:
        test = PairedTest(seed=seed, alternative=kind, latency_hint_ns=LATENCY_NS)
    return [paired(test, device(), truth)]


def many(job: tuple[Kind, str, float, int, int]) -> list[list[Trial]]:
    kind, regime, truth, first, count = job
    return [one(kind, regime, truth, seed) for seed in range(first, first + count)]


# Figures and bars.


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """95 % bounds of a share."""
    share, weight = hits / trials, Z**2 / trials
    middle = (share + weight / 2) / (1 + weight)
    half = Z / (1 + weight) * math.sqrt(share * (1 - share) / trials + weight / (4 * trials))
    return max(middle - half, 0.0), min(middle + half, 1.0)


@dataclass(frozen=True)
class Figure:
    name: str
    regime: str
    text: str
    broken: str | None = None  # the bar it breaks


def share(name: str, regime: str, hits: int, trials: int, *, most: float = 1.0, least: float = 0.0) -> Figure:
    low, high = wilson(hits, trials)
    broken = None
    if low > most:
        broken = f"{name} in {regime}: {hits / trials:.1%}, bar at most {most:.1%}"
    if high < least:
        broken = f"{name} in {regime}: {hits / trials:.1%}, bar at least {least:.1%}"
    return Figure(name, regime, f"{100 * hits / trials:.1f} [{100 * low:.1f}, {100 * high:.1f}]", broken)


def device_time(name: str, regime: str, ours: list[Trial], reference: list[Trial], factor: float) -> Figure:
    """Compared seed by seed; the bar is broken when even the lower bound of the mean difference is above it."""
    mine = np.array([trial.elapsed_s for trial in ours])
    theirs = np.array([trial.elapsed_s for trial in reference])
    excess = mine - factor * theirs
    bound = excess.mean() - Z * excess.std() / math.sqrt(excess.size)
    text = f"{mine.mean():.0f} s ({mine.mean() / theirs.mean():.2f} of {theirs.mean():.0f})"
    broken = f"{name} in {regime}: {text}, bar {factor} of the reference" if bound > 0 else None
    return Figure(name, regime, text, broken)


Results = dict[tuple[str, float], list[list[Trial]]]


class Cells:
    """The trials of one regime, by kind and truth."""

    def __init__(self, regime: str, got: Results) -> None:
        self.regime = regime
        self.got = got
        self.trials = len(next(iter(got.values())))

    def of(self, kind: Kind, truth: float, column: int = 0) -> list[Trial]:
        return [trials[column] for trials in self.got[kind, truth]]

    def share(
        self,
        name: str,
        kind: Kind,
        truth: float,
        outcome: str,
        column: int = 0,
        *,
        most: float = 1.0,
        least: float = 0.0,
    ) -> Figure:
        hits = sum(trial.outcome == outcome for trial in self.of(kind, truth, column))
        label = f"{name}: {outcome} at {100 * truth:+.0f} %"
        return share(label, self.regime, hits, self.trials, most=most, least=least)

    def time(self, name: str, kind: Kind, column: int = 0) -> Figure:
        mean_s = np.mean([trial.elapsed_s for trial in self.of(kind, 0.0, column)])
        return Figure(f"{name}: device time at 0 %", self.regime, f"{mean_s:.0f} s")

    def time_in_bounds(self, name: str, kind: Kind, factor: float) -> Figure:
        ours, reference = self.of(kind, 0.0), self.of("reference", 0.0)
        return device_time(f"{name}: device time at 0 %", self.regime, ours, reference, factor)


def gate_figures(cells: Cells) -> Iterator[Figure]:
    yield cells.share("gate", "slower", 0.0, "REGRESSED", most=0.025)
    yield cells.share("gate", "slower", SLOWDOWN, "REGRESSED", least=0.91)
    yield cells.share("gate", "slower", SLOWDOWN, "EQUIVALENT", most=0.04)
    yield cells.time_in_bounds("gate", "slower", 1.0)


def both_figures(cells: Cells) -> Iterator[Figure]:
    yield cells.share("both", "both", 0.0, "REGRESSED", most=0.025)
    yield cells.share("both", "both", 0.0, "IMPROVED", most=0.025)
    yield cells.share("both", "both", SLOWDOWN, "IMPROVED", most=0.025)
    yield cells.share("both", "both", SLOWDOWN, "REGRESSED")
    yield cells.time_in_bounds("both", "both", 1.25)
    for truth in (0.0, SLOWDOWN):
        inside = sum(not (trial.below or trial.above) for trial in cells.of("both", truth))
        yield share(f"interval: truth inside at {100 * truth:+.0f} %", cells.regime, inside, cells.trials, least=0.90)


def stored_figures(cells: Cells) -> Iterator[Figure]:
    """Log-normal regimes have no bar for what is found: eight sessions of another day are too few there."""
    yield cells.share("stored", "stored", 0.0, "REGRESSED", most=0.07)
    power = 0.0 if cells.regime.startswith("logn") else 0.80
    yield cells.share("stored", "stored", SLOWDOWN, "REGRESSED", least=power)


def plain_figures(kind: Kind, name: str, column: int = 0) -> Callable[[Cells], Iterator[Figure]]:
    """Without bars: what the others do."""

    def found(cells: Cells) -> Iterator[Figure]:
        for truth in (0.0, SLOWDOWN):
            yield cells.share(name, kind, truth, "REGRESSED", column)
        yield cells.time(name, kind, column)

    return found


def peer_figures(cells: Cells) -> Iterator[Figure]:
    for column, name in enumerate(RULES):
        yield from plain_figures("peers", name, column)(cells)


FIGURES: dict[Kind, Callable[[Cells], Iterator[Figure]]] = {
    "slower": gate_figures,
    "both": both_figures,
    "stored": stored_figures,
    "canary": plain_figures("canary", "canary pairs"),
    "reference": plain_figures("reference", "reference design"),
    "peers": peer_figures,
}


def figures(regime: str, got: Results) -> Iterator[Figure]:
    cells = Cells(regime, got)
    for kind, of_kind in FIGURES.items():
        if (kind, 0.0) in got:
            yield from of_kind(cells)


def simulate(trials: int, seed: int, jobs: int, kinds: tuple[Kind, ...], regimes: list[str]) -> Iterator[list[Figure]]:
    """One list a regime, as soon as it is done."""
    size = max(10, math.ceil(trials / (4 * jobs)))
    with ProcessPoolExecutor(jobs) as pool:
        run: Callable[..., Iterator[list[list[Trial]]]] = pool.map if jobs > 1 else map
        for regime in regimes:
            cells = [(kind, truth) for kind in kinds for truth in (0.0, SLOWDOWN)]
            work = [
                (kind, regime, truth, seed + start, min(size, trials - start))
                for kind, truth in cells
                for start in range(0, trials, size)
            ]
            got: Results = {cell: [] for cell in cells}
            for job, part in zip(work, run(many, work), strict=True):
                got[job[0], job[2]] += part
            yield list(figures(regime, got))


def table(columns: list[list[Figure]]) -> Iterator[str]:
    """A row a figure, a column a regime; markdown."""
    yield "| figure (% with 95 % bounds) | " + " | ".join(column[0].regime for column in columns) + " |"
    yield "|" + "---|" * (len(columns) + 1)
    for row in zip(*columns, strict=True):
        yield f"| {row[0].name} | " + " | ".join(one.text + (" **!**" if one.broken else "") for one in row) + " |"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=2000, help="comparisons of each kind and regime")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="first seed; one is used for each comparison")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=list(FIGURES), default=list(FIGURES), help="what to simulate")
    names = [regime.name for regime in SEVEN]
    parser.add_argument("--regimes", nargs="+", choices=names, default=names)
    given = parser.parse_args(arguments)
    kinds = dict.fromkeys([*given.kinds, "reference"])  # the others' device time is compared with it
    columns = []
    for column in simulate(given.trials, given.seed, given.jobs, tuple(kinds), given.regimes):
        columns.append(column)
        print(f"{column[0].regime} done", file=sys.stderr, flush=True)
    print("\n".join(table(columns)))
    broken = [one.broken for column in columns for one in column if one.broken]
    print("\n" + ("\n".join(f"NOT HELD: {bar}" for bar in broken) if broken else "All bars hold."))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
