"""How fast, and in how much memory, the profile of a long QNN session is read.

    python tools/bench_qnn_csv.py [--rows 1000000] [--operators 300]

A made-up profile of a graph in three partitions is written, and read in a fresh process by the spans of its inferences.
The rate is of processor time, which other work on the machine does not change; the wall clock's is printed beside it.

Exit status: 0 fine, 1 slower than 300,000 rows a second or larger than 300 MB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_winml.monitors.qnn_csv import Section, read_profile
from pytest_winml.monitors.qnn_csv_rows import COLUMNS, SOURCES_COLUMN

LEAST_ROWS_PER_S = 300_000
MOST_BYTES = 300 * 1000 * 1000
PARTITIONS = 3


def block(partition: int, operators: int, cycles: int) -> str:
    first = 17 + partition * operators
    nodes = [
        f"0,NODE,{cycles},CYCLES,BACKEND,SUB-EVENT,/layers.{number}/attention, query/MatMul_token_{number}:"
        f"OpId_{number} (cycles),/layers.{number}/attention, query/MatMul_token_{number};/layers.{number}/Add\n"
        for number in range(first, first + operators)
    ]
    before = (
        "0,BACKEND,4,COUNT,BACKEND,ROOT,Number of HVX threads used,\n"
        "0,BACKEND,0,COUNT,BACKEND,ROOT,Num times yield occured,\n"
        f"0,BACKEND,{cycles * operators},CYCLES,BACKEND,ROOT,Accelerator (execute) time (cycles),\n"
    )
    after = (
        "0,BACKEND,41608,US,BACKEND,ROOT,Accelerator (execute) time,\n"
        "0,EXECUTE,41733,US,BACKEND,ROOT,QNN (execute) time,\n"
    )
    return before + "".join(nodes) + after


def write_profile(path: Path, rows: int, operators: int) -> tuple[list[Section], int]:
    """The spans of the inferences, and the lines written: at least `rows`."""
    inference = "".join(block(partition, operators, 100 + partition) for partition in range(PARTITIONS)).encode()
    header = (",".join([*COLUMNS, SOURCES_COLUMN]) + "\n").encode()
    per_inference = inference.count(b"\n")
    inferences = -(-rows // per_inference)
    with path.open("wb") as file:
        file.write(header)
        for _ in range(inferences):
            file.write(inference)
    size = len(inference)
    sections = [
        Section(start=len(header) + number * size, end=len(header) + (number + 1) * size, run=number + 1)
        for number in range(inferences)
    ]
    return sections, inferences * per_inference + 1


def read(path: Path, sections: list[Section]) -> dict[str, float]:
    """In this process, so that its peak is the reader's."""
    wall, processor = time.perf_counter(), time.process_time()
    profile = read_profile(path, sections)
    return {
        "lines": profile.lines,
        "accounted": sum(profile.counts.values()),
        "blocks": len(profile.blocks),
        "wall_s": time.perf_counter() - wall,
        "processor_s": time.process_time() - processor,
        "peak_bytes": peak_bytes(),
    }


def peak_bytes() -> int:
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    # The usage that getrusage tells begins with that of the process which started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) * 1024


def measure(rows: int, operators: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="qnn-csv-") as folder:
        path, spans = Path(folder, "profile.csv"), Path(folder, "spans.json")
        sections, lines = write_profile(path, rows, operators)
        spans.write_text(json.dumps([[one.start, one.end, one.run] for one in sections]), encoding="utf-8")
        child = subprocess.run(
            [sys.executable, __file__, "--read", str(path), str(spans)], check=True, capture_output=True, text=True
        )
    figures: dict[str, float] = json.loads(child.stdout)
    if figures["lines"] != lines or figures["accounted"] != lines:
        raise SystemExit(f"{lines} lines were written, and these accounted for: {figures}")
    return figures


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure the reader of QNN profiles.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--operators", type=int, default=300, help="of each partition")
    parser.add_argument("--read", nargs=2, metavar=("PROFILE", "SPANS"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.read:
        path, spans = map(Path, options.read)
        sections = [Section(start=a, end=b, run=run) for a, b, run in json.loads(spans.read_text(encoding="utf-8"))]
        print(json.dumps(read(path, sections)))
        return 0
    figures = measure(options.rows, options.operators)
    rate = figures["lines"] / figures["processor_s"]
    print(
        f"{figures['lines']:,} rows in {figures['blocks']:,} blocks: {rate:,.0f} rows/s of processor time "
        f"({figures['lines'] / figures['wall_s']:,.0f} by the wall clock), peak {figures['peak_bytes'] / 1e6:.0f} MB"
    )
    return 0 if rate >= LEAST_ROWS_PER_S and figures["peak_bytes"] <= MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
