"""Exports every architecture of tests/pipeline/architectures.py at its full size, and prints a table.

    python tools/export_grid.py [--opset 17] [--exporter torchscript|dynamo] [name ...]

Random weights, no network. About a minute for all ten on two slow cores.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pytest_winml.errors import WinmlError
from pytest_winml.execute.worker import Worker
from pytest_winml.records.stages import ExportRequest, StageAnswer
from tests.pipeline import architectures

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROW = "| {:<22} | {:>5} | {:>6} | {:>7} | {:>6} | {:>12} | {:>9} |"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opset", type=int, default=17)
    parser.add_argument("--exporter", choices=["torchscript", "dynamo"], default="torchscript")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(arguments)
    print(_ROW.format("model", "opset", "nodes", "Mparam", "s", "1 - cosine", "max abs"))
    failed = 0
    for architecture in architectures.ALL:
        if options.names and architecture.name not in options.names:
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "export"
            folder.mkdir()
            request = ExportRequest(
                source=architecture.name,
                task=architecture.task,
                weights="random",
                config_json=json.dumps(architecture.config),
                component=architecture.component,
                opset=options.opset,
                exporter=options.exporter,
                output_folder=str(folder),
            )
            failed += not _row(request, Path(place) / "worker")
    return bool(failed)


def _row(request: ExportRequest, directory: Path) -> bool:
    worker = Worker("pytest_winml.pipeline.service:BuildService", directory=directory)
    started = time.monotonic()
    try:
        facts: dict[str, Any] = dict(worker.call("export", request, StageAnswer, timeout_s=600).facts)
    except WinmlError as error:
        print(f"| {request.source:<22} | {error}")
        return False
    finally:
        worker.close()
    seconds = time.monotonic() - started
    distance = 1 - min(facts["cosine"].values())
    largest = max(facts["max_abs_difference"].values())
    millions = f"{facts['parameters'] / 1e6:.1f}"
    print(
        _ROW.format(
            request.source,
            facts["opset"],
            facts["nodes"],
            millions,
            f"{seconds:.1f}",
            f"{distance:.1e}",
            f"{largest:.1e}",
        )
    )
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
