"""What a plan to thin out a store promises, on stores made up at random."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.records.store import EntryRecord, StoredFile
from pytest_winml.store.collection import Rules, plan, reachable
from pytest_winml.store.entries import Entry
from tests.store.stages import ingredients


def entry(number: int, inputs: list[int], last_used_at: float, size_bytes: int) -> Entry:
    record = EntryRecord(
        key=name(number),
        model="m",
        ingredients=ingredients(),
        inputs=tuple(name(one) for one in inputs),
        files=(StoredFile(name="f", sha256="", size_bytes=size_bytes),),
        content_digest="",
        created_at="",
        elapsed_s=0.0,
        plugin_version="",
    )
    return Entry(Path(), record, last_used_at)


def name(number: int) -> str:
    return f"{number:064x}"


@st.composite
def stores(draw: st.DrawFn) -> list[Entry]:
    """Each entry is made from some that were there before it."""
    count = draw(st.integers(0, 8))
    return [
        entry(
            number,
            draw(st.lists(st.integers(0, number - 1), max_size=2, unique=True)) if number else [],
            draw(st.integers(0, 5)),
            draw(st.integers(0, 5)),
        )
        for number in range(count)
    ]


keys = st.frozensets(st.integers(0, 9).map(name), max_size=3)
limits = st.none() | st.integers(0, 12)


@given(found=stores(), keep=keys, in_use=keys, older_than_s=limits, max_bytes=limits)
def test_the_plan_keeps_its_promises(
    found: list[Entry],
    keep: frozenset[str],
    in_use: frozenset[str],
    older_than_s: int | None,
    max_bytes: int | None,
) -> None:
    rules = Rules(older_than_s=older_than_s, max_bytes=max_bytes, keep=keep)
    steps = plan(found, rules, in_use=in_use, now=6)
    order = [step.key for step in steps]
    gone = set(order)
    stay = [one for one in found if one.key not in gone]
    assert len(gone) == len(order)
    assert not gone & (keep | in_use)
    assert not any(key in gone for one in stay for key in one.record.inputs), "what stays has its inputs"
    inputs = {one.key: one.record.inputs for one in found}
    for position, key in enumerate(order):
        assert not set(order[:position]) & set(inputs[key]), "and so it is at every step on the way"
    sacred = {kept for key in keep | in_use for kept in (key, *reachable(key, inputs))}
    free = [one for one in stay if one.key not in sacred]
    if max_bytes is not None:
        assert sum(one.size_bytes for one in stay) <= max_bytes or not free
    if older_than_s is not None:
        young = {one.key for one in found if 6 - one.last_used_at <= older_than_s}
        needed = {key for one in young for key in (one, *reachable(one, inputs))}
        assert all(one.key in needed for one in free), "nothing old stays that nothing young is made from"
    if older_than_s is None and max_bytes is None:
        assert gone == set()


@given(found=stores(), max_bytes=st.integers(0, 12))
def test_nothing_goes_that_need_not(found: list[Entry], max_bytes: int) -> None:
    steps = plan(found, Rules(max_bytes=max_bytes), in_use=frozenset(), now=6)
    total = sum(one.size_bytes for one in found)
    if steps:
        freed = sum(step.size_bytes for step in steps[:-1])
        assert total - freed > max_bytes, "without the last step it would not have fitted"


def test_a_circle_made_by_hand_does_not_hang() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["a"]}
    assert reachable("a", graph) == {"b", "c"}
    circle = [entry(0, [1], 0, 1), entry(1, [0], 0, 1)]
    assert len(plan(circle, Rules(max_bytes=0), in_use=frozenset(), now=6)) == 2
