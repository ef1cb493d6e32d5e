"""`pytest-winml compare`: the timed cases of two runs, and whether one has become slower."""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path

from pytest_winml.errors import UsageProblem

_OK, _REGRESSED = 0, 1
_PERCENT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*")
_MOST_PERCENT = 1000.0
_EXAMPLES = """examples:
  pytest-winml compare main/report.json reports/report.json
  pytest-winml compare before.json after.json --tolerance 5%
  pytest-winml compare before.json after.json --json > comparison.json

Sessions of the two runs are compared relative to the canary that ran beside them, so that a warmer day is not a slower
model. Four sessions in either run are the least that a verdict needs: time with --winml-protocol=rigorous. To hold one
build against another on the same day, --winml-baseline says more.

exit status: 0 nothing has become slower for certain, 1 something has, 4 for a mistake in the command, such as a file
that is not a report."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    compare = commands.add_parser(
        "compare",
        help="the times of two runs, case by case",
        description="Compares what two runs have timed, by their report.json.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    compare.add_argument("before", metavar="A.json", help="the report of the earlier run")
    compare.add_argument("after", metavar="B.json", help="the report of the later run")
    compare.add_argument("--tolerance", default="10%", metavar="P%", help="the change that matters (10%%)")
    compare.add_argument(
        "--ignore-identity",
        action="append",
        default=[],
        metavar="FIELD",
        help="compare although this field of the machines differs (repeatable)",
    )
    compare.add_argument("--json", action="store_true", help="the comparison as JSON, for scripts")


def run(chosen: argparse.Namespace) -> int:
    import msgspec

    from pytest_winml.measure.between_runs import compare_runs
    from pytest_winml.report.comparison import comparison_lines
    from pytest_winml.store.reports import read_report

    tolerance = _tolerance(chosen.tolerance)
    before, after = ((name, read_report(Path(name))) for name in (chosen.before, chosen.after))
    comparison = compare_runs(before, after, tolerance=tolerance, ignore=chosen.ignore_identity)
    if chosen.json:
        print(msgspec.json.format(msgspec.json.encode(comparison), indent=1).decode())
    else:
        print("\n".join(comparison_lines(comparison, shutil.get_terminal_size((100, 24)).columns)))
    return _REGRESSED if comparison.regressed else _OK


def _tolerance(text: str) -> float:
    match = _PERCENT.fullmatch(text)
    if match is None or not 0 < float(match[1]) <= _MOST_PERCENT:
        raise UsageProblem(f"--tolerance {text!r} is no share of a time", remedy="write --tolerance 10%.")
    return float(match[1]) / 100
