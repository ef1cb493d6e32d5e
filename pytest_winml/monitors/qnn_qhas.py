"""QHAS, the summary that QNN's profile viewer writes of one graph: one snapshot, in bytes and cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_winml.records.base import Record

if TYPE_CHECKING:
    from pathlib import Path

Detail = float | int | str | None
_ARTIFACT = "QHAS"


class NotQhas(Exception):
    """A file that is something else, or of another schema."""


class _Header(msgspec.Struct, frozen=True):
    artifact_type: str


class _Node(msgspec.Struct, frozen=True):
    qnn_op: str
    qnn_op_type: str | None = None
    cycles: float | None = None
    percent_active_cycles: float | None = None
    num_dominant_path_cycles_htp_0: float | None = None
    percent_dominant_path_cycles_htp_0: float | None = None
    num_htp_ops: int | None = None
    dram_read: int | None = None
    dram_write: int | None = None
    vtcm_read: int | None = None
    vtcm_write: int | None = None


class _Overall(msgspec.Struct, frozen=True):
    time_us: float | None = None
    graph_execute_us: float | None = None
    timeline_cycles: float | None = None
    total_dram_read: int | None = None
    total_dram_write: int | None = None
    total_vtcm_read: int | None = None
    total_vtcm_write: int | None = None
    peak_vtcm_alloc: int | None = None
    qnn_nodes: int | None = None
    htp_nodes: int | None = None


class _Nodes(msgspec.Struct, frozen=True):
    data: list[_Node]


class _Overalls(msgspec.Struct, frozen=True):
    data: list[_Overall]


class _Data(msgspec.Struct, frozen=True):
    qnn_op_instances_nodes: _Nodes
    htp_overall_summary: _Overalls


class _File(msgspec.Struct, frozen=True):
    header: _Header
    data: _Data


class QhasOperator(Record, frozen=True, kw_only=True):
    name: str
    op_type: str | None
    details: dict[str, Detail]


class Qhas(Record, frozen=True, kw_only=True):
    """`totals` are of the whole graph, and have the same keys in every file."""

    operators: tuple[QhasOperator, ...]
    totals: dict[str, float | None]


def read_qhas(path: Path) -> Qhas:
    """Raises `NotQhas` with the place of what is missing or of another type."""
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except (OSError, msgspec.DecodeError) as error:
        raise NotQhas(str(error)) from error
    if file.header.artifact_type != _ARTIFACT:
        raise NotQhas(f"it is of type {file.header.artifact_type!r}")
    overall = file.data.htp_overall_summary.data[0] if file.data.htp_overall_summary.data else _Overall()
    per_cycle = overall.time_us / overall.timeline_cycles if overall.time_us and overall.timeline_cycles else None
    return Qhas(
        operators=tuple(_operator(node, per_cycle) for node in file.data.qnn_op_instances_nodes.data),
        totals=_totals(overall),
    )


def _operator(node: _Node, us_per_cycle: float | None) -> QhasOperator:
    """The dominant path is the part of an operator that the inference waits for, and the only one that is a time."""
    dominant = node.num_dominant_path_cycles_htp_0
    return QhasOperator(
        name=node.qnn_op,
        op_type=node.qnn_op_type,
        details={
            "qhas_cycles": node.cycles,
            "active_percent": node.percent_active_cycles,
            "dominant_path_cycles": dominant,
            "dominant_path_percent": node.percent_dominant_path_cycles_htp_0,
            "dominant_path_us": dominant * us_per_cycle if dominant is not None and us_per_cycle else None,
            "dram_read_bytes": node.dram_read,
            "dram_write_bytes": node.dram_write,
            "vtcm_read_bytes": node.vtcm_read,
            "vtcm_write_bytes": node.vtcm_write,
            "htp_ops": node.num_htp_ops,
        },
    )


def _totals(overall: _Overall) -> dict[str, float | None]:
    return {
        "qhas_inference_us": overall.time_us,
        "qhas_execute_us": overall.graph_execute_us,
        "qhas_timeline_cycles": overall.timeline_cycles,
        "dram_read_bytes": overall.total_dram_read,
        "dram_write_bytes": overall.total_dram_write,
        "vtcm_read_bytes": overall.total_vtcm_read,
        "vtcm_write_bytes": overall.total_vtcm_write,
        "vtcm_peak_bytes": overall.peak_vtcm_alloc,
        "qnn_nodes": overall.qnn_nodes,
        "htp_nodes": overall.htp_nodes,
    }
