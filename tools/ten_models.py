"""Builds ten architectures at full size, with random weights, for Snapdragon X Elite, and says what became of them.

    python tools/ten_models.py [--store DIR] [--only NAME...]

First and second pass are processes of their own on one store: the second must build nothing, and takes what it takes
to find that out. Then each compiled artifact runs once on the HTP emulator, and its outputs are compared with those of
the float model on the CPU: SQNR in dB of the worst output, one held-out random input. `expected` is
what an earlier study of these architectures measured there, with other random weights. Exit status 1 if a model does
not build, or falls 1.5 dB or more below what is expected.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from pytest_winml.data.random_inputs import random_feeds
from pytest_winml.errors import WinmlError
from pytest_winml.execute.pool import WorkerPool
from pytest_winml.pipeline.pipeline import Pipeline
from pytest_winml.records.case import Case
from pytest_winml.records.model import Model
from pytest_winml.records.recipe import Calibration, Recipe
from pytest_winml.records.target import Target
from pytest_winml.session.machine import Machine
from pytest_winml.session.messages import ProviderSettings
from pytest_winml.store.artifacts import ArtifactStore
from tests.pipeline import architectures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pytest_winml.records.artifact import Artifact
    from tests.pipeline.architectures import Architecture

NPU, CPU = Target("qnn:npu"), Target("cpu")
W8A16 = Recipe(precision="w8a16", calibration=Calibration(data="random", samples=32))
FLOAT = Recipe(precision="fp32", compile=False)
TOLERANCE_DB = 1.5
# Its preprocessor scales pixels and does not normalise them; the others' do, which is what an export assumes.
INPUTS = {"mobilevit-small": {"pixel_values": (0.0, 1.0)}}
EXPECTED_DB = {
    "resnet-18": 29.1, "mobilevit-small": 21.2, "vit-small": 29.6, "dinov2-small": 34.7, "minilm-l6": 42.1,
    "roberta-6": 30.4, "convnext-tiny": 31.2, "swin-tiny": 32.6, "whisper-tiny-encoder": 41.4, "clip-4": 29.3,
}  # fmt: skip


class Bench:
    def __init__(self, store: Path, stack: ExitStack) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        pool = stack.enter_context(WorkerPool(folder / "workers"))
        self.machine = Machine(pool, ProviderSettings(offline=True), timeout_s=1800)
        self.pipeline = Pipeline(
            ArtifactStore(store), pool, self.machine, rootdir=folder, scratch=folder, timeout_s=1800, offline=True
        )

    def build(self, architecture: Architecture, recipe: Recipe, target: Target) -> Artifact:
        model = Model.hf(
            architecture.name,
            task=architecture.task,
            weights="random",
            config=architecture.config,
            component=architecture.component,
            inputs=INPUTS.get(architecture.name),
            name=architecture.name,
        )
        return self.pipeline.build(Case(model=model, recipe=recipe, target=target))

    def sqnr_db(self, architecture: Architecture) -> tuple[float, int]:
        """The worst output's SQNR, and how many nodes are not on the NPU."""
        float_model, compiled = self.build(architecture, FLOAT, CPU), self.build(architecture, W8A16, NPU)
        feeds = random_feeds(float_model.io.inputs, seed=1234)
        with self.machine.open(CPU, float_model.path) as session:
            expected = session.run(feeds)
        with self.machine.open(NPU, compiled.path) as session:
            got = session.run(feeds)
            elsewhere = len(session.placement.fallback_nodes)
        # A single number, such as the similarity of one image and one text, says nothing as a ratio of powers.
        names = [name for name, value in expected.items() if value.size > 1]
        return min(_sqnr_db(expected[name], got[name]) for name in names), elsewhere


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--pass", dest="one_pass", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        store = chosen.store or Path(stack.enter_context(temporary))
        if chosen.one_pass:
            return _build_all(Bench(store, stack), chosen.only)
        first_s, second_s = _timed_pass(store, chosen.only), _timed_pass(store, chosen.only)
        print(f"first pass {first_s:.1f} s, second pass {second_s:.2f} s ({100 * second_s / first_s:.2f} %)")
        return _compare_all(Bench(store, stack), chosen.only)


def _chosen(only: list[str]) -> Iterator[Architecture]:
    return (one for one in architectures.ALL if not only or one.name in only)


def _timed_pass(store: Path, only: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(
        [sys.executable, __file__, "--pass", "--store", store, *(["--only", *only] if only else [])], check=False
    )
    return time.monotonic() - started


def _build_all(bench: Bench, only: list[str]) -> int:
    failures = 0
    for architecture in _chosen(only):
        started = time.monotonic()
        try:
            runs = bench.build(architecture, W8A16, NPU).provenance.runs
        except WinmlError as error:
            failures += 1
            print(f"{architecture.name:22} FAILED {error.message[:200]}", flush=True)
            continue
        stages = " ".join(f"({run.stage})" if run.reused else f"{run.stage} {run.elapsed_s:.1f}s" for run in runs)
        print(f"{architecture.name:22} {time.monotonic() - started:6.2f} s  {stages}", flush=True)
    return failures


def _compare_all(bench: Bench, only: list[str]) -> int:
    below = 0
    print(f"{'model':22} {'HTP dB':>7} {'expected':>9} {'nodes elsewhere':>16}")
    for architecture in _chosen(only):
        expected = EXPECTED_DB[architecture.name]
        try:
            decibel, elsewhere = bench.sqnr_db(architecture)
        except WinmlError as error:
            below += 1
            print(f"{architecture.name:22} FAILED {error.message[:160]}", flush=True)
            continue
        below += decibel < expected - TOLERANCE_DB
        print(f"{architecture.name:22} {decibel:7.1f} {expected:9.1f} {elsewhere:16}", flush=True)
    return 1 if below else 0


def _sqnr_db(expected: NDArray[Any], got: NDArray[Any]) -> float:
    signal = expected.astype(np.float64)
    noise = float(((signal - got.astype(np.float64)) ** 2).sum())
    return 10 * math.log10(float((signal**2).sum()) / noise) if noise else math.inf


if __name__ == "__main__":
    sys.exit(main())
