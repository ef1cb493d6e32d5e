"""What the harness found out about itself: comparisons whose right answer is known, and how often it gave it.

Schema versions (`SELFTEST_SCHEMA`):
1  first.
"""

from __future__ import annotations

from pytest_winml.records.base import Record
from pytest_winml.records.latency import Verdict

SELFTEST_SCHEMA = 1


class Trial(Record, frozen=True, kw_only=True):
    """One artifact in both arms; `injected` is the share of its latency by which the candidate was slowed down."""

    number: int
    injected: float
    verdict: Verdict
    device_s: float
    elapsed_s: float

    @property
    def alarm(self) -> bool:
        return self.verdict.outcome == "REGRESSED"


class Rate(Record, frozen=True, kw_only=True):
    """A share of trials. Each of the two bounds holds with 95 % confidence by itself; no trials leave it unknown."""

    hits: int
    trials: int
    share: float | None
    at_least: float
    at_most: float
    promised_least: float = 0.0
    promised_most: float = 1.0

    @property
    def too_high(self) -> bool:
        return self.at_least > self.promised_most

    @property
    def too_low(self) -> bool:
        return self.at_most < self.promised_least


class SelfTest(Record, frozen=True, kw_only=True):
    """`subject` is what was compared with itself, for people; `consistent`: no bound excludes what is promised."""

    schema_version: int = SELFTEST_SCHEMA
    subject: str
    protocol: str
    seed: int | None
    planned: int
    interrupted: bool
    trials: tuple[Trial, ...]
    false_alarms: Rate
    power: Rate
    consistent: bool

    def of(self, injected: bool) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if bool(trial.injected) is injected)

    def sessions(self, injected: bool) -> int:
        return sum(trial.verdict.sessions for trial in self.of(injected))

    def device_s(self, injected: bool) -> float:
        return sum(trial.device_s for trial in self.of(injected))
