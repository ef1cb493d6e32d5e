from __future__ import annotations

import pytest

from pytest_winml.records.comparison import CaseComparison, ComparedRun, RunComparison
from pytest_winml.records.latency import Verdict
from pytest_winml.report.comparison import comparison_lines
from tests.report.run import item


def run(file: str, *, finished: bool = True) -> ComparedRun:
    return ComparedRun(
        file=file,
        run_id="20260101T000000Z-0badcafe",
        started_at="2026-01-01T00:00:00+00:00",
        runtime="onnxruntime 1.31.1",
        os="Linux",
        machine="x86_64",
        cpu="AMD Ryzen 7",
        finished=finished,
    )


def compared(
    model: str, verdict: Verdict, *, q_value: float | None = None, notes: tuple[str, ...] = ()
) -> CaseComparison:
    return CaseComparison(
        case=item(model, "cpu", "passed").case,
        before_ms=5.0,
        after_ms=5.61,
        sessions_before=12,
        sessions_after=8,
        verdict=verdict,
        q_value=q_value,
        notes=notes,
    )


SLOWER = Verdict(outcome="REGRESSED", effect=0.123, interval=(0.098, 0.141), sessions=8, mde=0.03, route="stored")
SAME = Verdict(outcome="EQUIVALENT", effect=-0.004, interval=(-0.02, 0.01), sessions=8, mde=0.03, route="stored")
UNSURE = Verdict(outcome="INCONCLUSIVE", effect=0.05, interval=(-0.04, 0.16), sessions=8, mde=0.18, route="stored")
OTHER = Verdict(outcome="NOT_COMPARABLE", reasons=("the runs' times are relative to different canaries.",))
COMPARISON = RunComparison(
    before=run("a.json"),
    after=run("b.json", finished=False),
    tolerance=0.1,
    cases=(
        compared("digits-a", SAME, q_value=0.9),
        compared("digits-b", OTHER),
        compared("digits-c", SLOWER, q_value=0.012, notes=("differs as well: python: 3.11 before, 3.13 now",)),
        compared("digits-d", UNSURE, q_value=0.35),
    ),
    only_before=("digits-old-default-cpu",),
    only_after=("digits-new-default-cpu", "digits-newer-default-cpu"),
    taken_as_equal=("driver_version",),
)
AT_100 = """\
before: a.json (2026-01-01T00:00:00+00:00, onnxruntime 1.31.1 on Linux x86_64, AMD Ryzen 7)
after: b.json (2026-01-01T00:00:00+00:00, onnxruntime 1.31.1 on Linux x86_64, AMD Ryzen 7; the run
was cut short)

case                  before   after    change   90 % interval      q       outcome
--------------------  -------  -------  -------  -----------------  ------  --------------
digits-c-default-cpu  5.00 ms  5.61 ms  +12.3 %  +9.8 % to +14.1 %  1.2 %   REGRESSED
digits-b-default-cpu  5.00 ms  5.61 ms  -        -                  -       NOT_COMPARABLE
digits-d-default-cpu  5.00 ms  5.61 ms  +5.0 %   -4.0 % to +16.0 %  35.0 %  INCONCLUSIVE
digits-a-default-cpu  5.00 ms  5.61 ms  -0.4 %   -2.0 % to +1.0 %   90.0 %  EQUIVALENT

note: differs as well: python: 3.11 before, 3.13 now (digits-c-default-cpu)

note: neither a change nor its absence is certain; 18.0 % could have been found.
(digits-d-default-cpu)

note: the runs' times are relative to different canaries. (digits-b-default-cpu)

timed only in a.json: digits-old-default-cpu

timed only in b.json: digits-new-default-cpu, digits-newer-default-cpu

not told by either report, and taken as equal: driver_version

before and after are the p50 as measured; the change is relative to the canary that ran beside it,
and 10.0 % is what matters. q: of all changes with a q up to this one, the share that chance alone
would give.

1 regressed, 1 not comparable, 1 inconclusive, 1 equivalent
"""
AT_80 = """\
before: a.json (2026-01-01T00:00:00+00:00, onnxruntime 1.31.1 on Linux x86_64,
AMD Ryzen 7)
after: b.json (2026-01-01T00:00:00+00:00, onnxruntime 1.31.1 on Linux x86_64,
AMD Ryzen 7; the run was cut short)

case           before   after    change   90 % interval   q       outcome
-------------  -------  -------  -------  --------------  ------  --------------
digits-c-defa  5.00 ms  5.61 ms  +12.3 %  +9.8 % to       1.2 %   REGRESSED
ult-cpu                                   +14.1 %
digits-b-defa  5.00 ms  5.61 ms  -        -               -       NOT_COMPARABLE
ult-cpu
digits-d-defa  5.00 ms  5.61 ms  +5.0 %   -4.0 % to       35.0 %  INCONCLUSIVE
ult-cpu                                   +16.0 %
digits-a-defa  5.00 ms  5.61 ms  -0.4 %   -2.0 % to +1.0  90.0 %  EQUIVALENT
ult-cpu                                   %

note: differs as well: python: 3.11 before, 3.13 now (digits-c-default-cpu)

note: neither a change nor its absence is certain; 18.0 % could have been found.
(digits-d-default-cpu)

note: the runs' times are relative to different canaries. (digits-b-default-cpu)

timed only in a.json: digits-old-default-cpu

timed only in b.json: digits-new-default-cpu, digits-newer-default-cpu

not told by either report, and taken as equal: driver_version

before and after are the p50 as measured; the change is relative to the canary
that ran beside it, and 10.0 % is what matters. q: of all changes with a q up to
this one, the share that chance alone would give.

1 regressed, 1 not comparable, 1 inconclusive, 1 equivalent
"""
ALONE_AT_80 = """\
before: a.json (2026-01-01T00:00:00+00:00, onnxruntime 1.31.1 on Linux x86_64,
AMD Ryzen 7)
after: b.json (2026-01-01T00:00:00+00:00, onnxruntime 1.31.1 on Linux x86_64,
AMD Ryzen 7)

case           before   after    change   90 % interval      outcome
-------------  -------  -------  -------  -----------------  ---------
m-default-cpu  5.00 ms  5.61 ms  +12.3 %  +9.8 % to +14.1 %  REGRESSED

before and after are the p50 as measured; the change is relative to the canary
that ran beside it, and 5.0 % is what matters.

1 regressed
"""


@pytest.mark.parametrize(("width", "text"), [(80, AT_80), (100, AT_100)])
def test_the_table_has_the_worst_first_and_fits(width: int, text: str) -> None:
    lines = comparison_lines(COMPARISON, width)
    assert "\n".join(lines) + "\n" == text
    assert max(map(len, lines)) <= width


def test_one_case_alone_needs_no_q_value() -> None:
    alone = RunComparison(before=run("a.json"), after=run("b.json"), tolerance=0.05, cases=(compared("m", SLOWER),))
    assert "\n".join(comparison_lines(alone, 80)) + "\n" == ALONE_AT_80
