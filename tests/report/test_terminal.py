from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.records.recipe import Recipe
from pytest_winml.records.report import ItemFinished, Outcome, RunReport
from pytest_winml.records.target import Target
from pytest_winml.report.terminal import emulation_lines, placement_text, summary_lines
from tests.report.run import CPU, FINISHED, ITEMS, REPORT, STARTED, fallback, item, nodes, placement

if TYPE_CHECKING:
    from pytest_winml.records.placement import Placement

AT_80 = """\
onnxruntime 1.31.1 on Linux x86_64, AMD Ryzen 7 7840U w/ Radeon 780M Graphics

model       recipe  target          runs      placement         outcome
----------  ------  --------------  --------  ----------------  ----------------
digits-cnn  auto    openvino:npu    broken    -                 1 error
digits-vit  w8a8    qnn:npu@sm8750  emulated  120 of 124        1 failed
                                              nodes, 4
                                              partitions; on
                                              CPU: Erf
                                              /vit/blocks/0/ml
                                              p/act/Erf, Erf
                                              (unnamed), Erf
                                              /vit/blocks/2/ml
                                              p/act/Erf and 1
                                              more
digits-cnn  mine    dml:gpu         absent    -                 1 skipped
digits-vit  auto    dml:gpu         absent    -                 1 skipped
digits-cnn  w8a16   npu → qnn:npu   emulated  58 of 58 nodes,   1 xfailed, 1
                                              1 partition       passed
digits-cnn  fp32    cpu             native    11 of 11 nodes    1 passed

skipped dml:gpu (2 tests): DmlExecutionProvider is installed but finds no GPU on
this machine. To run it: run on a machine with that GPU and its driver.

emulated: placement and arithmetic are the NPU's own; times are not, and none is
reported.
"""
AT_120 = """\
onnxruntime 1.31.1 on Linux x86_64, AMD Ryzen 7 7840U w/ Radeon 780M Graphics

model       recipe  target          runs      placement                                              outcome
----------  ------  --------------  --------  -----------------------------------------------------  -------------------
digits-cnn  auto    openvino:npu    broken    -                                                      1 error
digits-vit  w8a8    qnn:npu@sm8750  emulated  120 of 124 nodes, 4 partitions; on CPU: Erf            1 failed
                                              /vit/blocks/0/mlp/act/Erf, Erf (unnamed), Erf
                                              /vit/blocks/2/mlp/act/Erf and 1 more
digits-cnn  mine    dml:gpu         absent    -                                                      1 skipped
digits-vit  auto    dml:gpu         absent    -                                                      1 skipped
digits-cnn  w8a16   npu → qnn:npu   emulated  58 of 58 nodes, 1 partition                            1 xfailed, 1 passed
digits-cnn  fp32    cpu             native    11 of 11 nodes                                         1 passed

skipped dml:gpu (2 tests): DmlExecutionProvider is installed but finds no GPU on this machine. To run it: run on a
machine with that GPU and its driver.

emulated: placement and arithmetic are the NPU's own; times are not, and none is reported.
"""


def run(*items: ItemFinished) -> RunReport:
    return RunReport(started=STARTED, items=items, finished=FINISHED)


def rows(report: RunReport, width: int = 140) -> list[list[str]]:
    """The cells of the table's body, for runs whose rows need no second line."""
    lines = summary_lines(report, width)
    rule = next(place for place, line in enumerate(lines) if line.startswith("---"))
    body = lines[rule + 1 :]
    until = body.index("") if "" in body else len(body)
    return [re.split(" {2,}", line) for line in body[:until]]


@pytest.mark.parametrize(("width", "golden"), [(80, AT_80), (120, AT_120)])
def test_the_summary_reads_like_this(width: int, golden: str) -> None:
    assert summary_lines(REPORT, width) == golden.splitlines()


@pytest.mark.parametrize("width", [141, 200, 1000])
def test_a_very_wide_terminal_gets_no_wider_lines(width: int) -> None:
    assert summary_lines(REPORT, width) == summary_lines(REPORT, 140)


@given(width=st.integers(min_value=60, max_value=200))
def test_the_summary_fits_the_terminal(width: int) -> None:
    assert max(len(line) for line in summary_lines(REPORT, width)) <= width


def test_a_run_in_which_nothing_finished_says_so() -> None:
    assert summary_lines(run(), 80) == ["no winml item finished"]


@given(st.permutations(ITEMS))
def test_the_summary_does_not_depend_on_the_order_tests_ran_in(items: list[ItemFinished]) -> None:
    assert summary_lines(run(*items), 120) == summary_lines(REPORT, 120)


def test_the_worst_outcome_comes_first() -> None:
    outcomes: tuple[Outcome, ...] = ("passed", "xfailed", "skipped", "xpassed", "failed", "error")
    report = run(*(item(f"model-{outcome}", "cpu", outcome) for outcome in outcomes))
    assert [row[-1] for row in rows(report)] == [f"1 {outcome}" for outcome in reversed(outcomes)]


def test_tests_of_one_case_share_a_row_that_counts_them() -> None:
    several = [item("digits-cnn", "cpu", "passed", test=f"test_{number}") for number in range(3)]
    (row,) = rows(run(*several, item("digits-cnn", "cpu", "failed", test="test_other")))
    assert row[-1] == "1 failed, 3 passed"


def test_two_socs_of_one_ep_are_told_apart() -> None:
    report = run(item("m", "qnn:npu", "passed"), item("m", Target("qnn:npu", soc="sm8750"), "passed"))
    assert [row[2] for row in rows(report)] == ["qnn:npu", "qnn:npu@sm8750"]


def test_a_row_shows_the_precision_that_was_built_else_what_was_asked_for() -> None:
    report = run(
        item("a", "cpu", "passed", precision="fp32"),
        item("b", "cpu", "passed", recipe=Recipe(precision="w8a16")),
        item("c", "cpu", "passed", recipe=Recipe(name="mine"), precision="fp32"),
    )
    assert [row[1] for row in rows(report)] == ["fp32", "w8a16", "mine"]


TWO_RECIPES = """\
model       recipe              target   runs    placement  outcome
----------  ------------------  -------  ------  ---------  --------
digits-cnn  unoptimized (fp32)  cpu      native  -          1 failed
digits-cnn  default (fp32)      cpu      native  -          1 passed
digits-cnn  w8a16               qnn:npu  native  -          1 passed
"""


def test_rows_that_differ_only_in_the_recipe_show_its_id() -> None:
    lines = summary_lines(
        run(
            item("digits-cnn", "cpu", "passed", precision="fp32"),
            item("digits-cnn", "cpu", "failed", recipe=Recipe(optimize="none"), precision="fp32"),
            item("digits-cnn", "qnn:npu", "passed", precision="w8a16"),
        ),
        80,
    )
    assert lines[2:] == TWO_RECIPES.splitlines()


def test_an_id_that_says_the_precision_does_not_say_it_twice() -> None:
    recipes = (Recipe(precision="w8a8", compile=False), Recipe(precision="w8a8"))
    report = run(*(item("m", "cpu", "passed", recipe=recipe, precision="w8a8") for recipe in recipes))
    assert [row[1] for row in rows(report)] == ["w8a8", "w8a8-uncompiled"]


def test_long_ids_of_recipes_still_fit_the_terminal() -> None:
    recipes = [Recipe(optimize=("gelu_fusion", "layer_norm_fusion", name)) for name in ("pad_fusion", "gemm_fusion")]
    report = run(*(item("digits-cnn", "cpu", "passed", recipe=recipe, precision="fp32") for recipe in recipes))
    assert max(len(line) for line in summary_lines(report, 80)) <= 80


def noted(one: ItemFinished, *notes: str) -> ItemFinished:
    return msgspec.structs.replace(one, notes=notes)


def test_a_note_is_said_once_with_its_cases() -> None:
    many = [noted(item(f"m{number}", "cpu", "passed"), "nothing changed") for number in range(5)]
    lines = summary_lines(run(*many, noted(item("m0", "cpu", "passed"), "nothing changed", "other")), 120)
    assert [line for line in lines if line.startswith("note")] == [
        "note: nothing changed (m0-default-cpu, m1-default-cpu, m2-default-cpu and 2 more)",
        "note: other (m0-default-cpu)",
    ]


def test_that_a_case_was_emulated_is_not_said_of_each() -> None:
    report = run(noted(item("m", "qnn:npu", "passed", "emulated"), "emulated: so it was"))
    assert not [line for line in summary_lines(report, 120) if line.startswith("note")]


def test_emulated_targets_are_told_as_the_header_tells_them() -> None:
    sm8750 = Target("qnn:npu", soc="sm8750")
    items = (item("a", "qnn:npu", "passed", "emulated"), item("b", "qnn:npu", "passed", "emulated"))
    lines = emulation_lines(run(*items, item("a", sm8750, "passed", "emulated"), item("a", "cpu", "passed")))
    assert [line.partition(" EMULATED on this host")[0] for line in lines] == [
        "winml: qnn:npu",
        "winml: qnn:npu@sm8750",
    ]


def test_a_case_that_never_asked_its_target_is_of_unknown_mode() -> None:
    unasked = msgspec.structs.replace(item("m", "cpu", "error"), availability=None)
    assert rows(run(unasked))[0][2:4] == ["cpu", "unknown"]


def test_equal_reasons_of_skips_are_said_once_with_their_number() -> None:
    skips = [
        item(f"m{number}", "qnn:npu", "skipped", "absent", skip_reason=f"reason {number % 2}") for number in range(3)
    ]
    lines = summary_lines(run(*skips), 120)
    assert [line for line in lines if line.startswith("skipped")] == [
        "skipped qnn:npu (2 tests): reason 0",
        "skipped qnn:npu (1 test): reason 1",
    ]


def test_a_skip_without_a_reason_says_that() -> None:
    lines = summary_lines(run(item("m", "cpu", "skipped")), 120)
    assert "skipped cpu (1 test): no reason given" in lines


@pytest.mark.parametrize("mode", ["native", "emulated"])
def test_what_emulation_means_is_said_where_something_was_emulated(mode: str) -> None:
    lines = summary_lines(run(item("m", "qnn:npu", "passed", "emulated" if mode == "emulated" else "native")), 120)
    assert any(line.startswith("emulated: ") for line in lines) is (mode == "emulated")


def test_a_run_without_a_runtime_says_so() -> None:
    host = msgspec.structs.replace(STARTED.environment, runtime=None)
    started = msgspec.structs.replace(STARTED, environment=host)
    report = RunReport(started=started, items=ITEMS, finished=None)
    assert summary_lines(report, 120)[0].startswith("no ONNX Runtime on Linux x86_64, ")


@pytest.mark.parametrize(
    ("placed", "text"),
    [
        (placement(58), "58 of 58 nodes, 1 partition"),
        (placement(58, partitions=3), "58 of 58 nodes, 3 partitions"),
        (placement(11, target="cpu"), "11 of 11 nodes"),
        (placement(0, fallback("a"), partitions=0), "0 of 1 nodes, 0 partitions; on CPU: Erf a"),
        (placement(5, fallback("a", "b")), "5 of 7 nodes, 1 partition; on CPU: Erf a, Erf b"),
        (placement(5, fallback("", "b")), "5 of 7 nodes, 1 partition; on CPU: Erf (unnamed), Erf b"),
        (placement(5, fallback("a", "b", "c")), "5 of 8 nodes, 1 partition; on CPU: Erf a, Erf b, Erf c"),
        (
            placement(5, fallback("a", "b", "c", "d", "e")),
            "5 of 10 nodes, 1 partition; on CPU: Erf a, Erf b, Erf c and 2 more",
        ),
        (placement(1, ep_context=True), "all nodes, 1 partition, compiled"),
        (placement(1, ep_context=True, compiled_nodes=58), "58 of 58 nodes, 1 partition, compiled"),
        (
            placement(1, fallback("a"), ep_context=True),
            "all but 1 node, 1 partition, compiled; on CPU: Erf a",
        ),
    ],
)
def test_a_placement_says_how_much_is_on_the_target_and_what_is_elsewhere(placed: Placement, text: str) -> None:
    assert placement_text(placed) == text


def test_the_boundary_is_not_counted() -> None:
    without = placement(5)
    assert placement_text(msgspec.structs.replace(without, boundary_nodes=nodes(9, CPU))) == placement_text(without)
