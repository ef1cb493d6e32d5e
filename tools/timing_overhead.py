"""What our timed loop adds to a latency, against the barest loop, in one process.

    python tools/timing_overhead.py [--seconds 20]

Two models are built on the fly, one of about 50 us and one of about 5 ms. Blocks of the timed loop (T) and of a loop
that only calls `run_with_iobinding` (B), whose total is read off the clock, are run as B T T B and T B B T in turn, so
that drift cancels, and are short, so that many of them escape whatever else the machine does: the lower deciles over
all blocks are compared, with 95 % intervals by resampling quads. Two ratios are printed: what the loop takes in all,
and what its samples say, both against the bare loop.

Exit status: 0 every ratio is shown to be within 1 %, 1 one is shown not to be, 2 the machine is too busy to tell.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from pytest_winml.session.timing import quiet_collector, time_block

if TYPE_CHECKING:
    from numpy.typing import NDArray

BAR = 0.01
BLOCK_NS = 500_000
NS_PER_S = 1_000_000_000
RESAMPLES = 1000
# (name, latency to reach, how many numbers each layer reads). Both fit in a cache: what neighbours do is felt less.
MODELS = (("50 us", 50_000, 1024), ("5 ms", 5_000_000, 16384))


def chain(layers: int, width: int, path: Path) -> Path:
    names = ["x", *(f"y{index}" for index in range(layers))]
    nodes = [helper.make_node("Tanh", [names[i]], [names[i + 1]]) for i in range(layers)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def bound(path: Path) -> tuple[Any, Any]:
    """The session's run method and its binding. One thread: a second one would only add noise to compare against."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for value in session.get_inputs():
        binding.bind_ortvalue_input(value.name, ort.OrtValue.ortvalue_from_numpy(np.ones(value.shape, np.float32)))
    for value in session.get_outputs():
        binding.bind_output(value.name, "cpu")
    return session.run_with_iobinding, binding


def bare_ns(run: Any, binding: Any, iterations: int) -> int:
    start = perf_counter_ns()
    for _ in range(iterations):
        run(binding)
    return perf_counter_ns() - start


def timed_ns(run: Any, binding: Any, iterations: int) -> tuple[int, int]:
    """What the loop took in all, and the sum of its samples."""
    start = perf_counter_ns()
    times = time_block(run, binding, iterations)
    return perf_counter_ns() - start, sum(times)


def model_taking(target_ns: int, width: int, folder: Path) -> tuple[Any, Any, float]:
    """A chain of as many layers as it takes, found by trying, and what it takes in truth."""
    layers = 8
    for _ in range(4):
        run, binding = bound(chain(layers, width, folder / f"{width}-{layers}.onnx"))
        bare_ns(run, binding, 20)
        latency_ns = min(bare_ns(run, binding, 5) / 5 for _ in range(20))
        layers = max(1, round(layers * target_ns / latency_ns))
    return run, binding, latency_ns


def quads(run: Any, binding: Any, iterations: int, seconds: float) -> NDArray[np.float64]:
    """Nanoseconds by (quad, block of its kind, what): the bare loop, the timed loop, the sum of its samples."""
    rows = []
    deadline = perf_counter_ns() + seconds * NS_PER_S
    order = "BTTB"
    with quiet_collector():
        while perf_counter_ns() < deadline:
            bare, timed = [], []
            for kind in order:
                if kind == "B":
                    bare.append(bare_ns(run, binding, iterations))
                else:
                    timed.append(timed_ns(run, binding, iterations))
            rows.append([(one, *other) for one, other in zip(bare, timed, strict=True)])
            order = "TBBT" if order == "BTTB" else "BTTB"
    return np.array(rows, np.float64)


def interval(quads_ns: NDArray[np.float64], what: int) -> tuple[float, float, float]:
    """The ratio of the lower deciles of `what` to the bare loop, between its bounds."""

    def ratio(chosen: NDArray[np.float64]) -> float:
        bare, other = (np.quantile(chosen[:, :, index], 0.10) for index in (0, what))
        return float(other / bare)

    generator = np.random.default_rng(1)
    resampled = [ratio(quads_ns[generator.integers(0, len(quads_ns), len(quads_ns))]) for _ in range(RESAMPLES)]
    low, high = np.quantile(resampled, (0.025, 0.975))
    return float(low), ratio(quads_ns), float(high)


def judge(low: float, high: float) -> int:
    if low > 1 - BAR and high < 1 + BAR:
        return 0
    return 1 if low > 1 + BAR or high < 1 - BAR else 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each model")
    seconds = parser.parse_args().seconds
    found = set()
    with tempfile.TemporaryDirectory() as folder:
        for name, target_ns, width in MODELS:
            run, binding, latency_ns = model_taking(target_ns, width, Path(folder))
            iterations = max(1, round(BLOCK_NS / latency_ns))
            quads_ns = quads(run, binding, iterations, seconds)
            print(f"model of {name}: takes {latency_ns / 1000:.1f} us; {iterations} a block, {len(quads_ns)} quads")
            for index, what in ((1, "loop"), (2, "samples")):
                low, middle, high = interval(quads_ns, index)
                found.add(judge(low, high))
                said = ("within 1 %", "NOT within 1 %", "too noisy to tell")[judge(low, high)]
                print(f"  {what:8}/ bare = {middle:.4f}  [{low:.4f}, {high:.4f}]  {said}")
    return 1 if 1 in found else max(found)


if __name__ == "__main__":
    sys.exit(main())
