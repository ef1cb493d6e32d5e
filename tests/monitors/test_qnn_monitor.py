"""The QNN monitor at its seams: options, spans, stale files, statuses."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pytest_winml.errors import MonitorError, UsageProblem
from pytest_winml.monitors.qnn import QnnMonitor
from pytest_winml.session.monitoring import Span, check_monitor_options
from tests.models import conv_relu_matmul, save
from tests.monitors.qnn_profiles import FINALIZE, HEADER, QNN, node, placement, simple_block, window

CREATED = HEADER + FINALIZE


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(conv_relu_matmul(), tmp_path / "m.onnx")


def prepared(folder: Path, level: str = "basic") -> tuple[QnnMonitor, Path]:
    monitor = QnnMonitor("detail" if level == "detail" else "basic")
    options = monitor.prepare(folder)
    return monitor, Path(options.provider_options["profiling_file_path"])


@pytest.mark.parametrize(("level", "qnns"), [("basic", "detailed"), ("detail", "optrace")])
def test_it_adds_the_two_profiling_keys_and_watches_its_file(tmp_path: Path, level: str, qnns: str) -> None:
    monitor = QnnMonitor("detail" if level == "detail" else "basic")
    options = monitor.prepare(tmp_path)
    check_monitor_options(monitor, options, QNN)
    assert options.provider_options.keys() == {"profiling_level", "profiling_file_path"}
    assert options.provider_options["profiling_level"] == qnns
    assert options.watched == (options.provider_options["profiling_file_path"],)
    assert Path(options.watched[0]).parent == tmp_path
    assert options.working_directory == (str(tmp_path) if level == "detail" else None)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(UsageProblem, match="unknown trace level 'detailed'"):
        QnnMonitor("detailed")  # type: ignore[arg-type]


def test_warm_up_runs_are_read_and_count_in_no_figure(tmp_path: Path, model: Path) -> None:
    monitor, csv = prepared(tmp_path)
    parts = [CREATED, simple_block("conv", cycles=9000), *[simple_block("conv", cycles=n) for n in (10, 30)]]
    trace = monitor.collect(window(csv, model, parts, placement("conv"), warm_up=1))
    assert trace.status == "ok"
    conv = next(operator for operator in trace.operators if operator.name == "conv")
    assert (conv.cycles, conv.calls) == (20, 2)
    assert conv.share == pytest.approx(1 / 3)
    assert trace.statistics["conv"] == {
        "count": 2,
        "avg_cycles": 20,
        "min_cycles": 10,
        "p90_cycles": 28,
        "max_cycles": 30,
    }
    assert [one.partitions[0].cycles for one in trace.inferences] == [27000, 30, 90]


def test_microseconds_are_the_accelerators_and_there_are_none_on_the_emulator(tmp_path: Path, model: Path) -> None:
    for emulated in (False, True):
        monitor, csv = prepared(tmp_path)
        parts = [CREATED, simple_block("conv") + simple_block("matmul")]
        placed = placement("conv", "matmul", partitions=2, emulated=emulated)
        trace = monitor.collect(window(csv, model, parts, placed))
        assert [one.time_us for one in trace.partitions] == ([None, None] if emulated else [50, 50])
        assert trace.inferences[0].time_us == (None if emulated else 100)
        assert trace.summary["accelerator_us"] == (None if emulated else 100)
        assert trace.summary["accelerator_cycles"] == 60


def test_a_partition_that_ran_twice_in_one_inference_is_one_partition(tmp_path: Path, model: Path) -> None:
    monitor, csv = prepared(tmp_path)
    trace = monitor.collect(window(csv, model, [CREATED, simple_block("conv") * 2], placement("conv")))
    assert [run.partition for run in trace.inferences[0].partitions] == [0, 0]
    conv = next(operator for operator in trace.operators if operator.name == "conv")
    assert (conv.cycles, conv.calls) == (20, 2)


def test_input_and_output_are_kept_apart_by_partition(tmp_path: Path, model: Path) -> None:
    monitor, csv = prepared(tmp_path)
    parts = [CREATED, simple_block("conv") + simple_block("matmul")]
    trace = monitor.collect(window(csv, model, parts, placement("conv", "matmul", partitions=2)))
    pseudo = {operator.name: operator.partition for operator in trace.operators if operator.op_type == "Input"}
    assert pseudo == {"Input of partition 0": 0, "Input of partition 1": 1}


def test_a_stale_file_is_never_read(tmp_path: Path, model: Path) -> None:
    """One of an earlier window in the same folder, and one that QNN's option of old would have found."""
    earlier, old = prepared(tmp_path)
    before = window(old, model, [CREATED, simple_block("conv")], placement("conv"))
    (tmp_path / "profiling_output.csv").write_text(CREATED + simple_block("stale"))
    monitor, csv = prepared(tmp_path)
    assert csv != old
    trace = monitor.collect(msgspec.structs.replace(before, created={}, runs=before.runs))
    assert (trace.status, trace.operators) == ("no_data", ())
    assert earlier.collect(before).status == "ok"


def test_rows_of_nobodys_run_are_in_no_figure_and_told(tmp_path: Path, model: Path) -> None:
    monitor, csv = prepared(tmp_path)
    parts = [CREATED + simple_block("conv", cycles=777), simple_block("conv")]
    trace = monitor.collect(window(csv, model, parts, placement("conv")))
    assert next(operator.cycles for operator in trace.operators if operator.name == "conv") == 10
    assert "1 blocks belong to no run of the window and are in no figure" in trace.notes


def test_no_file_and_no_rows_are_no_data(tmp_path: Path, model: Path) -> None:
    monitor, csv = prepared(tmp_path)
    empty = window(csv, model, [CREATED, ""], placement("conv"))
    assert monitor.collect(empty).status == "no_data"
    csv.unlink()
    gone = monitor.collect(empty)
    assert (gone.status, gone.error) == ("no_data", "QNN wrote no profile of 1 runs")
    assert len(gone.inferences) == 1


def test_damage_is_parse_failed_with_its_line(tmp_path: Path, model: Path) -> None:
    monitor, csv = prepared(tmp_path)
    trace = monitor.collect(window(csv, model, [CREATED, "0,NODE,1\n"], placement("conv")))
    assert (trace.status, trace.error) == ("parse_failed", f"{csv.name}, line 3: 3 columns instead of 7")
    assert trace.operators == ()


def test_a_file_that_was_replaced_is_parse_failed(tmp_path: Path, model: Path) -> None:
    monitor, csv = prepared(tmp_path)
    seen = window(csv, model, [CREATED, simple_block("conv")], placement("conv"))
    shorter = msgspec.structs.replace(seen.runs[0], spans={str(csv): Span(start=500, end=20)})
    trace = monitor.collect(msgspec.structs.replace(seen, runs=(shorter,)))
    assert trace.status == "parse_failed"
    assert "became shorter in run 1" in str(trace.error)


def test_a_run_that_was_cut_short_leaves_the_others(tmp_path: Path, model: Path) -> None:
    monitor, csv = prepared(tmp_path)
    whole = simple_block("conv")
    cut = whole[: whole.index("0,EXECUTE") + 8]
    trace = monitor.collect(window(csv, model, [CREATED, whole, cut], placement("conv")))
    assert (trace.status, trace.metadata.runs) == ("ok", 1)
    assert "run 2: a block of 6 rows has no end" in trace.notes[-1]
    monitor, csv = prepared(tmp_path)
    nothing = monitor.collect(window(csv, model, [CREATED, cut], placement("conv")))
    assert nothing.status == "parse_failed"
    assert "line 9: the last block has no end" in str(nothing.error)


def test_nothing_on_the_target_is_a_cpu_fallback(tmp_path: Path, model: Path) -> None:
    monitor, csv = prepared(tmp_path)
    trace = monitor.collect(window(csv, model, [CREATED, ""], placement()))
    assert (trace.status, trace.error) == ("cpu_fallback", "nothing ran on qnn:npu")


def test_a_window_without_a_run_is_not_run(tmp_path: Path, model: Path) -> None:
    monitor, csv = prepared(tmp_path)
    assert monitor.collect(window(csv, model, [CREATED], placement("conv"))).status == "not_run"


def test_fewer_partitions_than_placed_are_told(tmp_path: Path, model: Path) -> None:
    monitor, csv = prepared(tmp_path)
    trace = monitor.collect(window(csv, model, [CREATED, simple_block("conv")], placement("conv", partitions=3)))
    assert "the graph has 3 partitions on QNN, and 1 different ones ran" in trace.notes


def test_values_that_the_backend_does_not_know_are_none(tmp_path: Path, model: Path) -> None:
    monitor, csv = prepared(tmp_path)
    text = simple_block("conv").replace(node("conv:OpId_17 (cycles)"), node("conv:OpId_17 (cycles)", "UNKNOWN"))
    trace = monitor.collect(window(csv, model, [CREATED, text], placement("conv")))
    conv = next(operator for operator in trace.operators if operator.name == "conv")
    assert (trace.status, conv.cycles, conv.share, trace.statistics["conv"]["avg_cycles"]) == ("ok", None, None, None)
    assert "UNKNOWN" in trace.notes[-1]


def test_a_model_that_cannot_be_read_costs_names_and_no_trace(tmp_path: Path) -> None:
    monitor, csv = prepared(tmp_path)
    trace = monitor.collect(window(csv, tmp_path / "gone.onnx", [CREATED, simple_block("conv")], placement("conv")))
    assert trace.status == "ok"
    assert any("does not exist" in note for note in trace.notes)


def test_a_monitor_that_was_not_prepared_or_discarded_is_an_error(tmp_path: Path, model: Path) -> None:
    monitor, csv = prepared(tmp_path)
    seen = window(csv, model, [CREATED, simple_block("conv")], placement("conv"))
    monitor.discard()
    with pytest.raises(MonitorError, match="not prepared"):
        monitor.collect(seen)
