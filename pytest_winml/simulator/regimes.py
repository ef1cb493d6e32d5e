"""What disturbs times, as data. All standard deviations and shares are of log latency, so 0.10 is about ten per cent.

Taken from 321 records of three fresh processes each on an NPU, a GPU and a CPU: sessions of one artifact on the NPU
scatter by 0.002 to 0.2 (10 to 90 % of the records; 0.033 in the middle), and 8 % of them are more than 20 % off.
"""

from __future__ import annotations

from pytest_winml.errors import unknown_name
from pytest_winml.records.base import Record


class Regime(Record, frozen=True, kw_only=True):
    name: str
    about: str
    # A fresh process, felt by all arms in it.
    session_sd: float = 0.10
    spike_session_share: float = 0.08  # sessions that are slow altogether,
    spike_session_mean: float = 0.35  # by an exponentially distributed amount on top of a fifth
    host_modes: tuple[float, float] = (0.0, 0.0)  # share of the second mode, its height: big and little cores
    day_sd: float = 0.085  # another day, driver state, room: what makes stored milliseconds stale
    # A fresh process, felt by one arm alone.
    arm_sd: float = 0.01
    badly_placed: tuple[float, float] = (0.0, 0.0)  # share of arms that memory was unkind to, and by how much
    # Time, felt by whatever runs.
    drift_sd: float = 0.0  # heat: an Ornstein-Uhlenbeck process
    drift_tau_s: float = 40.0
    slow_clock: float = 0.0  # the lower of two clock states
    clock_dwell_s: float = 8.0
    first_session: tuple[float, float] = (0.0, 0.0)  # height, and seconds it takes to fall: compilation while running
    # One iteration.
    iteration_sd: float = 0.05
    spikes: tuple[float, float] = (0.0, 0.0)  # share, and mean height in latencies: the host takes the core away
    lognormal_cv: float = 0.0  # replaces iteration_sd


SEVEN: tuple[Regime, ...] = (
    Regime(
        name="calm",
        about="a quiet device on its own",
        session_sd=0.01, spike_session_share=0.0, iteration_sd=0.03,
    ),
    Regime(
        name="thermal",
        about="heat drifts by 10 % within 40 s",
        drift_sd=0.10,
    ),
    Regime(
        name="dvfs",
        about="heat, and a clock that falls by 22 % now and then",
        drift_sd=0.10, slow_clock=0.22,
    ),
    Regime(
        name="spikes",
        about="single runs ten times as long (CV 2)",
        drift_sd=0.10, slow_clock=0.22, spikes=(0.03, 10.9), arm_sd=0.015,
    ),
    Regime(
        name="logn1",
        about="heavy-tailed runs (CV 1)",
        drift_sd=0.10, slow_clock=0.22, lognormal_cv=1.0, arm_sd=0.015,
    ),
    Regime(
        name="logn2",
        about="very heavy-tailed runs (CV 2)",
        drift_sd=0.10, slow_clock=0.22, lognormal_cv=2.0, arm_sd=0.015,
    ),
    Regime(
        name="placement",
        about="where an arm's memory lies makes 3 % of difference, and 8 % for some",
        drift_sd=0.10, slow_clock=0.22, arm_sd=0.03, badly_placed=(0.05, 0.08), iteration_sd=0.10,
    ),
)  # fmt: skip
EXTRA_REGIMES: tuple[Regime, ...] = (
    Regime(
        name="jit",
        about="the first session compiles while it runs",
        drift_sd=0.05, first_session=(0.8, 2.0),
    ),
    Regime(
        name="bimodal",
        about="a shared host with two kinds of cores",
        host_modes=(0.3, 0.5), spike_session_share=0.2, drift_sd=0.10, iteration_sd=0.10, spikes=(0.05, 2.0),
        arm_sd=0.02,
    ),
)  # fmt: skip
REGIMES: dict[str, Regime] = {regime.name: regime for regime in (*SEVEN, *EXTRA_REGIMES)}


def regime_named(name: str) -> Regime:
    if name not in REGIMES:
        raise unknown_name("regime", name, REGIMES)
    return REGIMES[name]
