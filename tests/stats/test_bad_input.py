"""What is not a session is refused by name, and the test is as it was before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_winml import PairedTest, SimulatedDevice
from pytest_winml.errors import InvalidSamples
from pytest_winml.stats.canary_pairs import CanaryPairedTest
from tests.stats.driving import settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_winml.records.latency import SessionPlan

Blocks = list[tuple[str, Any]]


def good(plan: SessionPlan) -> Blocks:
    return [(arm, [5_000_000 + 1000 * at for at in range(iterations)]) for arm, iterations in plan.blocks]


def third_block(change: Callable[[list[Any]], Any]) -> Callable[[Blocks], Any]:
    def spoil(blocks: Blocks) -> Blocks:
        arm, times = blocks[2]
        return [*blocks[:2], (arm, change(times)), *blocks[3:]]

    return spoil


def fifth_time(value: Any) -> Callable[[Blocks], Any]:
    return third_block(lambda times: [*times[:4], value, *times[5:]])


SPOILED: dict[str, tuple[Callable[[Blocks], Any], str]] = {
    "nothing at all": (lambda _: [], "session 2, block 1 is missing: 0 blocks, planned"),
    "None": (lambda _: None, "session 2: its blocks are not pairs"),
    "no pairs": (lambda _: [1, 2, 3], "session 2: its blocks are not pairs"),
    "a block is missing": (lambda blocks: blocks[:-1], "is missing"),
    "a block too many": (lambda blocks: [*blocks, blocks[0]], "was not planned"),
    "two blocks exchanged": (lambda b: [b[1], b[0], *b[2:]], "session 2, block 1 is of arm '[AB]', planned '[AB]'"),
    "all arms exchanged half way": (
        lambda blocks: [({"A": "B", "B": "A"}[arm], times) for arm, times in blocks],
        "session 2, block 1 is of arm",
    ),
    "an arm nobody knows": (lambda b: [("C", b[0][1]), *b[1:]], "session 2, block 1 is of arm 'C'"),
    "an empty block": (third_block(lambda _: []), "session 2, block 3 .* has no times, planned 25"),
    "one sample": (third_block(lambda times: times[:1]), "session 2, block 3 .* has one time, planned 25"),
    "one short": (third_block(lambda times: times[1:]), "session 2, block 3 .* has 24 times, planned 25"),
    "NaN": (fifth_time(math.nan), "session 2, block 3 .*, sample 5 is nan ns, which no clock gives"),
    "infinite": (fifth_time(math.inf), "session 2, block 3 .*, sample 5 is inf ns"),
    "minus infinite": (fifth_time(-math.inf), "session 2, block 3 .*, sample 5 is -inf ns"),
    "zero": (fifth_time(0), "session 2, block 3 .*, sample 5 is 0 ns"),
    "a clock going backwards": (fifth_time(-17), "session 2, block 3 .*, sample 5 is -17 ns"),
    "text among numbers": (fifth_time("5000000"), "session 2, block 3 .*: its times are not a list of numbers"),
    "None among numbers": (fifth_time(None), "session 2, block 3 .*: its times are not a list of numbers"),
    "complex": (fifth_time(1j), "session 2, block 3 .*: its times are not a list of numbers"),
    "beyond any float": (fifth_time(10**400), "session 2, block 3 .*: its times are not a list of numbers"),
    "truth values": (third_block(lambda times: [True] * len(times)), "session 2, block 3 .*: its times are not"),
    "a list of lists": (third_block(lambda times: [[time] for time in times]), "session 2, block 3 .*: its times"),
    "ragged lists": (third_block(lambda times: [[1], [1, 2], *times[2:]]), "session 2, block 3 .*: its times are not"),
    "a number for a list": (third_block(lambda _: 5_000_000), "session 2, block 3 .*: its times are not"),
    "text for a list": (third_block(lambda _: "fast"), "session 2, block 3 .*: its times are not"),
}


@pytest.mark.parametrize("what", SPOILED)
def test_a_bad_session_is_named_and_can_be_repeated(what: str) -> None:
    spoil, said = SPOILED[what]
    test, untouched = (PairedTest(seed=3, latency_hint_ns=5e6) for _ in range(2))
    for one in (test, untouched):
        one.add(good(one.next_session()))
    plan = test.next_session()
    with pytest.raises(InvalidSamples, match=said):
        test.add(spoil(good(plan)))
    assert test.next_session() == plan
    assert test.sessions == 1
    assert test.differences == untouched.differences
    assert settle(test, SimulatedDevice("calm", seed=1)) == settle(untouched, SimulatedDevice("calm", seed=1))


def test_a_bad_first_session_does_not_decide_which_arm_is_which() -> None:
    test = PairedTest(seed=3, latency_hint_ns=5e6)
    exchanged = [({"A": "B", "B": "A"}[arm], times) for arm, times in good(test.next_session())]
    exchanged[4] = (exchanged[4][0], [])
    with pytest.raises(InvalidSamples, match="session 1, block 5"):
        test.add(exchanged)
    test.add(good(test.next_session()))
    assert test.sessions == 1


@pytest.mark.parametrize(
    "form", [tuple, np.array, iter, lambda times: np.array(times, dtype=np.float32), lambda times: map(int, times)]
)
def test_times_come_in_any_form_that_is_a_list_of_numbers(form: Callable[[list[int]], Any]) -> None:
    test = PairedTest(seed=3, latency_hint_ns=5e6)
    test.add((arm, form(times)) for arm, times in good(test.next_session()))
    assert test.differences[0] == pytest.approx(0.0, abs=1e-6)


def test_whole_numbers_beyond_64_bits_are_numbers() -> None:
    test = PairedTest(seed=3, latency_hint_ns=5e6)
    test.add([(arm, [2**70] * iterations) for arm, iterations in test.next_session().blocks])
    assert test.differences == (0.0,)


def test_canary_pairs_refuse_alike() -> None:
    test = CanaryPairedTest(seed=3, latency_hint_ns=5e6)
    plan = test.next_session()
    with pytest.raises(InvalidSamples, match=r"session 1, block 1 .*, sample 1 is -1 ns"):
        test.add([(arm, [-1] * iterations) for arm, iterations in plan.blocks])
    assert test.next_session() == plan
