"""From profile to trace: warm-up apart, partitions, names of the model, and what stands in the way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_winml.monitors import ort_profile_reading
from pytest_winml.monitors.openvino import OpenVinoMonitor
from pytest_winml.monitors.ort_profile import OrtProfileMonitor
from pytest_winml.records.trace import OpTrace
from tests.models import conv_relu_matmul, save
from tests.monitors.profiles import CPU, OPENVINO, QNN, event, fused, node, placed, run, text, window

if TYPE_CHECKING:
    from pathlib import Path


def traced(
    folder: Path, events: list[dict[str, Any]] | str, *, monitor: OrtProfileMonitor | None = None, **fields: Any
) -> OpTrace:
    monitor = monitor or OrtProfileMonitor()
    prefix = monitor.prepare(folder).profile_prefix
    path = folder.parent / "nowhere" if prefix is None else folder / f"{prefix}_2026-11-18.json"
    path.write_text(events if isinstance(events, str) else text(events))
    return monitor.collect(window(path, **fields))


def hybrid(start: int, slow: int = 1) -> list[dict[str, Any]]:
    """A run of two partitions with a node of the CPU between them."""
    return [
        run(start, 100 * slow),
        fused(0, start + 1, 40 * slow),
        node("middle", start + 45 * slow, 10 * slow, "Hardmax"),
        fused(1, start + 60 * slow, 30 * slow),
    ]


def test_warm_up_counts_in_no_figure_and_is_shown_first(tmp_path: Path) -> None:
    events = [*hybrid(0, slow=50), *hybrid(10_000), *hybrid(20_000, slow=3)]
    trace = traced(tmp_path, events, runs=3, warm_up=1, provider=QNN)
    assert trace.status == "ok"
    assert [(one.number, one.warm_up, one.time_us) for one in trace.inferences] == [
        (1, True, 5000),
        (2, False, 100),
        (3, False, 300),
    ]
    assert {one.name: (one.calls, one.time_us) for one in trace.operators} == {
        "partition 0": (2, 80),
        "partition 1": (2, 60),
        "middle": (2, 20),
    }
    assert (trace.metadata.runs, trace.metadata.warm_up) == (2, 1)
    assert trace.summary["model_run_us"] == 200


def test_each_partition_has_its_time_in_each_inference(tmp_path: Path) -> None:
    trace = traced(tmp_path, [*hybrid(0), *hybrid(1000, slow=2)], runs=2, provider=QNN)
    assert [(one.index, one.ep, one.time_us) for one in trace.partitions] == [(0, QNN, 60), (1, QNN, 45)]
    assert [[(one.partition, one.time_us) for one in inference.partitions] for inference in trace.inferences] == [
        [(0, 40), (1, 30)],
        [(0, 80), (1, 60)],
    ]


def test_times_of_different_meaning_share_nothing(tmp_path: Path) -> None:
    trace = traced(tmp_path, hybrid(0), provider=QNN)
    assert {one.name: (one.meaning, round(one.share or 0, 3)) for one in trace.operators} == {
        "partition 0": ("partition wall time", 0.571),
        "partition 1": ("partition wall time", 0.429),
        "middle": ("kernel wall time", 1.0),
    }


def test_no_name_holds_the_hash_of_a_compiled_graph(tmp_path: Path) -> None:
    trace = traced(tmp_path, hybrid(0), provider=QNN)
    assert not any("123456789" in one.name for one in trace.operators)
    assert all("123456789" in str(one.name) for one in trace.partitions)


def openvino_children() -> list[dict[str, Any]]:
    return [
        run(0, 100),
        fused(0, 5, 80, OPENVINO),
        event("Kernel", "Convolution", 10, 30, op_name="Convolution", node_name="conv"),
        event("Kernel", "MatMul", 45, 10, op_name="MatMul", node_name="matmul"),
    ]


def test_an_eps_own_operators_are_of_its_partition_and_its_meaning(tmp_path: Path) -> None:
    path = save(conv_relu_matmul(), tmp_path / "m.onnx")
    monitor = OpenVinoMonitor()
    trace = traced(tmp_path, openvino_children(), monitor=monitor, provider=OPENVINO, model=str(path))
    own = [one for one in trace.operators if one.meaning == "EP's own operator time"]
    assert [(one.name, one.ep, one.partition, one.time_us, one.share) for one in own] == [
        ("conv", OPENVINO, 0, 30, 0.75),
        ("matmul", OPENVINO, 0, 10, 0.25),
    ]
    assert [one.ep_op_type for one in own] == ["Convolution", "MatMul"]
    assert own[0].op_type == "Conv"
    assert trace.partitions[0].operators == 2
    assert trace.summary["operators_of_the_ep"] == 2
    assert trace.notes == ()


def test_openvino_without_operators_of_its_own_says_so(tmp_path: Path) -> None:
    trace = traced(tmp_path, openvino_children()[:2], monitor=OpenVinoMonitor(), provider=OPENVINO)
    assert [one.name for one in trace.operators] == ["partition 0"]
    assert "added no operators of its own" in trace.notes[-1]


def test_nothing_on_the_target_is_a_fallback(tmp_path: Path) -> None:
    placement = placed({}, {"conv": "Conv"})
    trace = traced(tmp_path, [run(0, 10), node("conv", 1, 5)], provider=QNN, placement=placement)
    assert trace.status == "cpu_fallback"
    assert trace.fallback_nodes == placement.fallback_nodes
    assert [one.name for one in trace.operators] == ["conv"]


def test_the_cpu_as_target_is_no_fallback(tmp_path: Path) -> None:
    assert traced(tmp_path, [run(0, 10), node("conv", 1, 5)], provider=CPU).status == "ok"


@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        ("", "no_data", "holds no inference"),
        ("[\n]\n", "no_data", "holds no inference"),
        (text([run(0, 10)])[:-20], "parse_failed", "line 2"),
        (text([run(0, 10), run(20, 10)]), "parse_failed", "holds 2 inferences, and the window made 1"),
    ],
)
def test_what_cannot_be_read_has_a_status_and_a_reason(tmp_path: Path, content: str, status: str, says: str) -> None:
    trace = traced(tmp_path, content)
    assert trace.status == status
    assert says in str(trace.error)
    assert trace.operators == ()


def test_only_warm_up_is_no_trace(tmp_path: Path) -> None:
    trace = traced(tmp_path, [run(0, 10)], runs=1, warm_up=1)
    assert (trace.status, "all of them warm-up" in str(trace.error)) == ("parse_failed", True)


def test_the_profile_of_another_run_is_never_read(tmp_path: Path) -> None:
    monitor = OrtProfileMonitor()
    monitor.prepare(tmp_path)
    stale = tmp_path / "ort-another_2026.json"
    stale.write_text(text([run(0, 10), node("stale", 1, 5)]))
    assert monitor.collect(window(stale)).status == "no_data"
    assert monitor.collect(window(None)).status == "no_data"


def test_two_windows_in_one_folder_write_apart(tmp_path: Path) -> None:
    assert OrtProfileMonitor().prepare(tmp_path) != OrtProfileMonitor().prepare(tmp_path)


def test_the_cap_on_events_is_told_and_whole_inferences_still_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ort_profile_reading, "MAX_EVENTS", 5)
    events = [node("conv", 1, 5), run(0, 10), node("conv", 21, 7), run(20, 10), node("conv", 41, 999)]
    trace = traced(tmp_path, events, runs=9, warm_up=1)
    assert trace.status == "ok"
    assert trace.operators[0].time_us == 7
    assert "2 of 9 inferences" in trace.notes[-1]
    assert "16334" in trace.notes[-1]


def test_fewer_inferences_than_runs_without_the_cap_is_no_trace(tmp_path: Path) -> None:
    assert traced(tmp_path, [run(0, 10)], runs=2).status == "parse_failed"


def test_statistics_are_of_one_inference(tmp_path: Path) -> None:
    events = [one for n in range(11) for one in (run(100 * n, 50), node("conv", 100 * n + 1, n))]
    trace = traced(tmp_path, events, runs=11)
    figures = trace.statistics["conv"]
    assert figures == {"count": 11, "avg_us": 5.0, "min_us": 0, "p90_us": 9.0, "max_us": 10, "total_us": 55}


def test_a_trace_survives_json_without_nan(tmp_path: Path) -> None:
    trace = traced(tmp_path, [run(0, 0), node("conv", 0, 0)])
    assert trace.operators[0].share is None
    encoded = msgspec.json.encode(trace)
    assert msgspec.json.decode(encoded, type=OpTrace) == trace
    json.loads(encoded, parse_constant=pytest.fail)


# Names.


def names(tmp_path: Path, events: list[dict[str, Any]], on_cpu: dict[str, str]) -> dict[str, list[str]]:
    path = save(conv_relu_matmul(), tmp_path / "m.onnx")
    trace = traced(tmp_path, [run(0, 1000), *events], model=str(path), placement=placed(on_cpu))
    return {one.name: [behind.name for behind in one.onnx_nodes] for one in trace.operators}


def test_a_token_of_ort_comes_off_where_a_node_of_the_model_is_left(tmp_path: Path) -> None:
    assert names(tmp_path, [node("pool_token_5", 1, 2), node("other_token_3", 4, 1)], {}) == {
        "pool": ["pool"],
        "other": [],
    }


def test_a_node_that_is_really_called_so_keeps_its_name(tmp_path: Path) -> None:
    path = save(conv_relu_matmul(name="real_token_3"), tmp_path / "m.onnx")
    trace = traced(tmp_path, [run(0, 100), node("real_token_3", 1, 2, "Softmax")], model=str(path))
    assert [(one.name, one.onnx_nodes[0].name) for one in trace.operators] == [("real_token_3", "real_token_3")]


def test_what_ort_inserts_is_numbered_in_the_order_it_runs(tmp_path: Path) -> None:
    inserted = [node("Transpose_token_9", 1, 1, "Transpose"), node("Transpose_token_2", 3, 9, "Transpose")]
    assert list(names(tmp_path, inserted, {})) == ["Transpose#2", "Transpose"]


def test_a_blocked_convolution_is_the_nodes_up_to_the_tensor_it_is_named_after(tmp_path: Path) -> None:
    assert names(tmp_path, [node("r_nchwc", 1, 2)], {"conv": "Conv", "relu": "Relu"}) == {"conv": ["conv", "relu"]}


def test_a_relu_that_is_nowhere_was_fused_into_the_convolution(tmp_path: Path) -> None:
    fused_conv = node("conv", 1, 2, "FusedConv")
    assert names(tmp_path, [fused_conv], {"conv": "Conv", "relu": "Relu"}) == {"conv": ["conv", "relu"]}


def test_a_model_that_cannot_be_read_leaves_orts_names(tmp_path: Path) -> None:
    trace = traced(tmp_path, [run(0, 10), node("conv", 1, 5)], model=str(tmp_path / "gone.onnx"))
    assert trace.status == "ok"
    assert trace.operators[0].onnx_nodes == ()
    assert "does not exist" in trace.notes[0]


def test_nameless_nodes_are_found_by_their_place(tmp_path: Path) -> None:
    model = conv_relu_matmul()
    for one in model.graph.node:
        one.name = ""
    path = save(model, tmp_path / "m.onnx")
    events = [run(0, 100), node("Softmax_4", 1, 2, "Softmax", node_index="4"), node("Relu_9", 4, 1, "Relu")]
    trace = traced(tmp_path, events, model=str(path))
    assert [(one.name, [node.op_type for node in one.onnx_nodes]) for one in trace.operators] == [
        ("Softmax_4", ["Softmax"]),
        ("Relu_9", []),
    ]
