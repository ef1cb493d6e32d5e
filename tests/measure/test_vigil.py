from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.measure.vigil import Drift, Limits, Observation, disturbances, drift, machine_state, observe
from pytest_winml.records.latency import Block
from pytest_winml.records.machine_state import MachineState
from pytest_winml.records.placement import FallbackNode, PlacedNode, Placement
from pytest_winml.session.timing_messages import ArmLoad, Conditions, TimedSession

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CALM = MachineState(power_source="mains", power_mode="plan balanced", foreign_cpu_share=0.05)
ON_TARGET = tuple(PlacedNode(name=name, op_type="Conv", ep="QNNExecutionProvider") for name in "abcd")


def but(**changes: Any) -> MachineState:
    return msgspec.structs.replace(CALM, **changes)


def block(arm: str, *times_ns: int) -> Block:
    return Block(arm=arm, times_ns=times_ns)


def placed(*fallback: str, on_target: int = 4) -> Placement:
    return Placement(
        target="qnn:npu",
        target_nodes=ON_TARGET[:on_target],
        fallback_nodes=tuple(FallbackNode(name=name, op_type="Erf", ep="CPUExecutionProvider") for name in fallback),
        boundary_nodes=(),
        partitions=1,
        emulated=False,
    )


def drifted(change: float, error: float = 0.0) -> Drift:
    return Drift(log_ratio=math.log1p(change), error=error)


def test_a_calm_session_counts() -> None:
    seen = Observation(
        before=CALM, after=CALM, drift=drifted(0.01), expected={"A": placed()}, placements={"A": placed()}
    )
    assert disturbances(seen) == ()


def test_a_session_of_which_nothing_is_known_counts() -> None:
    assert disturbances(Observation()) == ()


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (but(power_source="battery"), "the power source changed from mains to battery"),
        (but(power_mode="plan power saver"), "the power mode changed from plan balanced to plan power saver"),
        (but(foreign_on_device=("game.exe",)), "other programs used the device: game.exe"),
        (but(foreign_on_device=("e", "d", "c", "b", "a")), "other programs used the device: a, b, c and 2 more"),
        (but(foreign_cpu_share=0.76), "other programs took 76.0 % of the processors"),
    ],
)
def test_what_changed_around_a_session_is_a_reason(after: MachineState, reason: str) -> None:
    assert disturbances(Observation(before=CALM, after=after)) == (reason,)


def test_a_program_seen_on_the_device_before_counts_as_well() -> None:
    assert disturbances(Observation(before=but(foreign_on_device=("game.exe",)), after=CALM)) != ()


@pytest.mark.parametrize("field", ["power_source", "power_mode", "foreign_cpu_share"])
def test_what_is_not_told_once_is_no_change(field: str) -> None:
    silent = but(**{field: None})
    assert disturbances(Observation(before=silent, after=CALM)) == ()
    assert disturbances(Observation(before=CALM, after=silent)) == ()


@pytest.mark.parametrize(
    ("change", "counts"), [(0.149, True), (0.151, False), (1 / 1.149 - 1, True), (1 / 1.151 - 1, False), (0.0, True)]
)
def test_a_reference_that_drifts_by_more_than_15_percent_is_a_reason(change: float, counts: bool) -> None:
    assert (disturbances(Observation(drift=drifted(change))) == ()) is counts


def test_a_drift_that_may_be_chance_is_none() -> None:
    assert disturbances(Observation(drift=drifted(0.30, error=0.1))) == ()
    assert disturbances(Observation(drift=drifted(0.30, error=0.08))) == ("the reference drifted by +30.0 % within it",)


def test_limits_can_be_others() -> None:
    strict = Limits(drift=0.01, foreign_cpu_share=0.01)
    assert len(disturbances(Observation(before=CALM, after=CALM, drift=drifted(0.02)), strict)) == 2


@pytest.mark.parametrize(
    ("expected", "seen", "reason"),
    [
        (placed(), placed("x"), "nodes of A left the target: Erf 'x'"),
        (placed("x"), placed(), "nodes of A came to the target that were not on it before: Erf 'x'"),
        (placed("x"), placed("y"), "nodes of A left the target: Erf 'y'"),
        (placed(on_target=4), placed(on_target=3), "the graph of A was partitioned in another way than before"),
    ],
)
def test_a_graph_that_runs_elsewhere_than_before_is_a_reason(expected: Placement, seen: Placement, reason: str) -> None:
    assert disturbances(Observation(expected={"A": expected}, placements={"A": seen})) == (reason,)


def test_the_first_session_has_nothing_to_be_held_against() -> None:
    assert disturbances(Observation(placements={"A": placed("x")})) == ()
    assert disturbances(Observation(expected={"canary": placed()}, placements={"A": placed("x")})) == ()


def test_all_reasons_are_told() -> None:
    seen = Observation(
        before=CALM, after=but(power_source="battery", foreign_cpu_share=0.9), drift=drifted(0.5),
        expected={"A": placed()}, placements={"A": placed("x")},
    )  # fmt: skip
    assert len(disturbances(seen)) == 4


def quads(count: int, times: Callable[[str, int], Sequence[int]], arms: tuple[str, str]) -> list[Block]:
    """Blocks in ABBA order; `times` by arm and quad."""
    first, second = arms
    return [
        Block(arm=arm, times_ns=tuple(times(arm, quad)))
        for quad in range(count)
        for arm in (first, second, second, first)
    ]


def test_drift_is_of_the_canary_where_there_is_one() -> None:
    def times(arm: str, quad: int) -> list[int]:
        return [1000 + 100 * quad] * 10 if arm == "canary" else [5000 * (quad + 1)] * 10

    found = drift(quads(4, times, ("target", "canary")))
    assert found is not None
    assert found.change == pytest.approx(0.3)
    assert found.error == 0


def test_drift_without_a_canary_is_of_both_arms_in_equal_parts_and_blind_to_which_is_faster() -> None:
    def times(arm: str, quad: int) -> list[int]:
        return [(1000 if arm == "A" else 3000) * (quad + 10)] * 10

    found = drift(quads(3, times, ("A", "B")))
    assert found is not None
    assert found.change == pytest.approx(0.2)
    swapped = drift(quads(3, lambda arm, quad: times("B" if arm == "A" else "A", quad), ("A", "B")))
    assert swapped is not None
    assert swapped.log_ratio == pytest.approx(found.log_ratio)


@pytest.mark.parametrize("blocks", [[], [block("A", 5)] * 7, [block("canary", 5)] * 3])
def test_without_two_quads_there_is_no_drift_to_tell(blocks: list[Block]) -> None:
    assert drift(blocks) is None


def test_single_samples_and_constant_ones_have_a_drift() -> None:
    found = drift([block("canary", 5)] * 4)
    assert found == Drift(log_ratio=0.0, error=0.0)


def scattered(rng: random.Random, sd: float, drift_by: float) -> list[Block]:
    def times(_: str, quad: int) -> list[int]:
        return [int(5e6 * (1 + drift_by * quad / 7) * math.exp(rng.gauss(0, sd))) for _ in range(25)]

    return quads(8, times, ("target", "canary"))


def share_that_counts(sd: float, drift_by: float) -> float:
    rng = random.Random(20260131)  # noqa: S311 - a simulation
    sessions = [Observation(drift=drift(scattered(rng, sd, drift_by))) for _ in range(300)]
    return sum(not disturbances(session) for session in sessions) / len(sessions)


@pytest.mark.parametrize("sd", [0.02, 0.3, 0.83, 1.27])
def test_scattered_times_without_a_drift_are_hardly_ever_taken_for_one(sd: float) -> None:
    """Log-normal with a coefficient of variation of up to 2, as some devices have."""
    assert share_that_counts(sd, 0.0) >= 0.98


@pytest.mark.parametrize("sd", [0.02, 0.1])
def test_a_real_drift_is_found_where_the_times_let_it_be_seen(sd: float) -> None:
    assert share_that_counts(sd, 0.5) <= 0.02


@given(st.lists(st.lists(st.integers(1, 10**12), min_size=1, max_size=5), min_size=4, max_size=9))
def test_any_times_have_a_finite_drift(times: list[list[int]]) -> None:
    found = drift([block("canary", *one) for one in times])
    assert found is not None
    assert math.isfinite(found.log_ratio)
    assert math.isfinite(found.error)


def session(conditions: dict[str, Any], *, placement: Placement, blocks: Sequence[Block] = ()) -> TimedSession:
    arm = ArmLoad(
        name="A", placement=placement, create_ns=1, first_run_ns=1, warm_up_iterations=1, warm_up_ns=1,
        warm_up_converged=True, warm_up_median_ns=1.0,
    )  # fmt: skip
    around = Conditions(
        timed_ns=1, gc_disabled=True, python_threads=1, clock="clock", clock_resolution_ns=1.0, **conditions
    )
    return TimedSession(arms=(arm,), blocks=tuple(blocks), conditions=around)


def test_a_timed_session_is_judged_by_what_its_worker_saw() -> None:
    seen = observe(
        session(
            {"power_before": "mains", "power_after": "battery", "foreign_cpu_share": 0.9},
            placement=placed("x"),
            blocks=quads(2, lambda _, quad: [1000 * (quad + 1)] * 3, ("A", "B")),
        ),
        expected={"A": placed()},
    )
    assert disturbances(seen) == (
        "the power source changed from mains to battery",
        "other programs took 90.0 % of the processors",
        "the reference drifted by +100.0 % within it",
        "nodes of A left the target: Erf 'x'",
    )


def test_the_state_around_a_session_adds_what_its_worker_does_not_see() -> None:
    silent = session({}, placement=placed())
    assert disturbances(observe(silent, CALM, but(power_mode="plan power saver", power_source="battery"))) == (
        "the power source changed from mains to battery",
        "the power mode changed from plan balanced to plan power saver",
    )


def test_the_state_of_this_machine_can_be_asked() -> None:
    before, after = machine_state(), machine_state()
    assert disturbances(Observation(before=before, after=after)) == ()
