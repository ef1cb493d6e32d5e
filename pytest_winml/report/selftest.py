"""The self-test as lines a person reads: one a comparison, then a table and what may be concluded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_winml import units
from pytest_winml.report.table import table_lines, wrap

if TYPE_CHECKING:
    from pytest_winml.records.latency import VerdictOutcome
    from pytest_winml.records.selftest import Rate, SelfTest, Trial

_OUTCOMES: tuple[VerdictOutcome, ...] = ("REGRESSED", "EQUIVALENT", "INCONCLUSIVE", "IMPROVED")
_HEADER = ("comparisons", *_OUTCOMES, "promised", "sessions", "device time")
_MORE = "More comparisons say more."


def trial_line(trial: Trial, planned: int) -> str:
    """` 3/10  A/A      EQUIVALENT    +0.4 % (-1.0 % to +1.9 %)  6 sessions  31 s`."""
    verdict = trial.verdict
    effect = "-" if verdict.effect is None else units.signed_percent(verdict.effect)
    if verdict.interval is not None:
        effect += f" ({units.signed_percent(verdict.interval[0])} to {units.signed_percent(verdict.interval[1])})"
    number = f"{trial.number:>{len(str(planned))}}/{planned}"
    sessions = units.count(verdict.sessions, "session")
    time = units.seconds(trial.device_s)
    return f"{number}  {_kind(trial.injected):<7}  {verdict.outcome:<12}  {effect:<27}  {sessions:<11}  {time}"


def _kind(injected: float) -> str:
    return units.signed_percent(injected) if injected else "A/A"


def selftest_lines(found: SelfTest, width: int) -> list[str]:
    lines = table_lines(_HEADER, [*_row(found, injected=False), *_row(found, injected=True)], width)
    if found.interrupted:
        lines += ["", f"Interrupted after {len(found.trials)} of {units.count(found.planned, 'comparison')}."]
    lines += ["", *wrap(_about_false_alarms(found.false_alarms), width), *wrap(_about_power(found.power), width)]
    return [*lines, *wrap(_conclusion(found), width)]


def _row(found: SelfTest, *, injected: bool) -> list[tuple[str, ...]]:
    trials = found.of(injected)
    if not trials:
        return []
    outcomes = Counter(trial.verdict.outcome for trial in trials)
    return [
        (
            f"{len(trials)} {'at ' if injected else ''}{_kind(trials[0].injected)}",
            *(str(outcomes[outcome]) for outcome in _OUTCOMES),
            _promise(found.power if injected else found.false_alarms),
            str(found.sessions(injected)),
            units.seconds(found.device_s(injected)),
        )
    ]


def _promise(rate: Rate) -> str:
    """Of REGRESSED."""
    if rate.promised_least:
        return f">= {units.percent(rate.promised_least)}"
    return f"<= {units.percent(rate.promised_most)}"


def _about_false_alarms(rate: Rate) -> str:
    if not rate.trials:
        return "No A/A comparison was made: nothing can be said about false alarms."
    said = f"{rate.hits} of {units.count(rate.trials, 'A/A comparison')} raised an alarm: the false-alarm rate is "
    if rate.too_high:
        return f"{said}above {units.percent(rate.at_least)} with 95 % confidence."
    if rate.at_most >= 1:
        return f"{said}unknown."
    return f"{said}below {units.percent(rate.at_most)} with 95 % confidence."


def _about_power(rate: Rate) -> str:
    if not rate.trials:
        return "No slowdown was injected: nothing can be said about power."
    found = "was found" if rate.hits == 1 else "were found"
    said = f"{rate.hits} of {units.count(rate.trials, 'injected slowdown')} {found}: the power is "
    if rate.too_low:
        return f"{said}below {units.percent(rate.at_most)} with 95 % confidence."
    if rate.at_least <= 0:
        return f"{said}unknown."
    return f"{said}above {units.percent(rate.at_least)} with 95 % confidence."


def _conclusion(found: SelfTest) -> str:
    false_alarms, power = found.false_alarms, found.power
    broken = [
        *(["false alarms"] if false_alarms.too_high else []),
        *(["slowdowns that are missed"] if power.too_low else []),
    ]
    if broken:
        return (
            f"NOT HELD: more {' and '.join(broken)} than promised. Gates on this machine mislead: "
            "let nothing else run on it, and test again."
        )
    if false_alarms.at_most <= false_alarms.promised_most and power.at_least >= power.promised_least:
        return "Shown: gates keep their promises here."
    if not found.trials:
        return _MORE
    return f"Consistent with what gates promise, and not yet proof of it. {_MORE}"
