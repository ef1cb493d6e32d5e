"""The EP's reasons, read from its trace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_winml.session.qnn_op_trace import FILE_NAME, Reasons

if TYPE_CHECKING:
    from pathlib import Path


def _trace(folder: Path, nodes: list[tuple[str, str, str]]) -> Path:
    path = folder / FILE_NAME
    refused = [{"node_index": 0, "node_name": name, "op_type": op, "reason": why} for name, op, why in nodes]
    path.write_text(json.dumps({"schema_version": 2, "unsupported_nodes": refused, "summary": {"fusion_count": None}}))
    return path


def test_a_named_node_has_its_reason_however_often_it_is_asked(tmp_path: Path) -> None:
    reasons = Reasons(_trace(tmp_path, [("a", "Erf", "no Erf"), ("b", "Erf", "nor this")]))
    assert [reasons.take("b", "Erf"), reasons.take("a", "Erf"), reasons.take("b", "Erf")] == [
        "nor this",
        "no Erf",
        "nor this",
    ]


def test_unnamed_nodes_of_one_type_get_their_reasons_in_order(tmp_path: Path) -> None:
    reasons = Reasons(_trace(tmp_path, [("", "Erf", "first"), ("", "Erf", "second"), ("", "Shrink", "other")]))
    assert [reasons.take("", "Erf"), reasons.take("", "Erf"), reasons.take("", "Shrink")] == [
        "first",
        "second",
        "other",
    ]


def test_a_node_without_a_reason_has_none(tmp_path: Path) -> None:
    assert Reasons(_trace(tmp_path, [])).take("a", "Conv") is None


def test_a_trace_that_is_missing_or_unreadable_gives_no_reasons(tmp_path: Path) -> None:
    assert not Reasons(tmp_path / FILE_NAME).found
    (tmp_path / FILE_NAME).write_text("{'not': json")
    unreadable = Reasons(tmp_path / FILE_NAME)
    assert unreadable.found
    assert unreadable.take("a", "Conv") is None
