"""QNN's profiles by hand, line by line, and windows around them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_winml.records.placement import PlacedNode, Placement
from pytest_winml.session.monitoring import ObservedRun, Span, Window

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

QNN = "QNNExecutionProvider"
HEADER = "Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier\n"
HEADER_WITH_SOURCES = HEADER.replace("\n", ",ONNX Source Ops\n")
FINALIZE = "0,FINALIZE,39017,US,BACKEND,ROOT,QNN (finalize) time\n"


def node(identifier: str, cycles: int | str = 10, unit: str = "CYCLES") -> str:
    return f"0,NODE,{cycles},{unit},BACKEND,SUB-EVENT,{identifier}\n"


def event(identifier: str, value: int | str, unit: str, kind: str = "BACKEND", end: str = "") -> str:
    return f"0,{kind},{value},{unit},BACKEND,ROOT,{identifier}{end}\n"


def block(nodes: Sequence[str], cycles: int | str, *, with_sources: bool = False) -> str:
    end = "," if with_sources else ""
    return "".join(
        [
            event("Number of HVX threads used", 4, "COUNT", end=end),
            event("Accelerator (execute) time (cycles)", cycles, "CYCLES", end=end),
            *nodes,
            event("Accelerator (execute) time", 50, "US", end=end),
            event("QNN (execute) time", 60, "US", "EXECUTE", end=end),
        ]
    )


def simple_block(*names: str, cycles: int = 10) -> str:
    rows = ["Input OpId_2 (cycles)", *(f"{name}:OpId_{17 + n} (cycles)" for n, name in enumerate(names))]
    rows.append("Output OpId_3 (cycles)")
    return block([node(row, cycles) for row in rows], cycles * len(rows))


def placement(*names: str, partitions: int = 1, emulated: bool = False) -> Placement:
    return Placement(
        target="qnn:npu",
        target_nodes=tuple(PlacedNode(name=name, op_type="Conv", ep=QNN) for name in names),
        fallback_nodes=(),
        boundary_nodes=(),
        partitions=partitions,
        emulated=emulated,
    )


def window(csv: Path, model: Path, parts: Sequence[str], placed: Placement, *, warm_up: int = 0) -> Window:
    """Writes the file: the first part is the session's creation, each other one a run's."""
    ends = [0]
    csv.write_bytes(b"")
    with csv.open("ab") as file:
        for part in parts:
            file.write(part.encode())
            ends.append(file.tell())
    spans = [Span(start=start, end=end) for start, end in pairwise(ends)]
    return Window(
        target=placed.target,
        provider=QNN,
        emulated=placed.emulated,
        model_path=str(model),
        placement=placed,
        options={"profiling_file_path": str(csv)},
        runs=tuple(
            ObservedRun(number=number, warm_up=number <= warm_up, elapsed_us=1.0, spans={str(csv): span})
            for number, span in enumerate(spans[1:], 1)
        ),
        created={str(csv): spans[0]},
    )
