from __future__ import annotations

import importlib
import pkgutil

import msgspec
import pytest

from pytest_winml import records
from pytest_winml.records.artifact import Artifact, TensorSpec
from pytest_winml.records.base import Record
from pytest_winml.records.case import Case
from pytest_winml.records.machine import Availability, Environment
from pytest_winml.records.model import Model
from pytest_winml.records.placement import Placement
from pytest_winml.records.report import ItemFinished, RunReport
from pytest_winml.records.target import ExecutionProvider, Soc, Target
from tests.records.samples import FALLBACK, PLACED, filled

# Values that stay inside one process: they hold a function or a path. Their JSON forms are CaseRef and Provenance.
NEVER_WRITTEN: frozenset[type] = frozenset({Model, Case, Artifact})
# Constants of the package.
TABLES: frozenset[type] = frozenset({ExecutionProvider, Soc, Record})


def structs_of_the_package() -> set[type[msgspec.Struct]]:
    modules = [
        importlib.import_module(f"{records.__name__}.{found.name}") for found in pkgutil.iter_modules(records.__path__)
    ]
    return {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__
    }


WRITTEN = sorted(structs_of_the_package() - NEVER_WRITTEN - TABLES, key=lambda kind: kind.__name__)
every_record = pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.__name__)


def test_the_records_of_a_run_are_among_those_that_are_tried() -> None:
    assert {Environment, ItemFinished, Placement, RunReport, Target} <= set(WRITTEN)


@every_record
def test_a_record_is_read_back_as_it_was_written(kind: type[msgspec.Struct]) -> None:
    value = filled(kind)
    assert msgspec.json.decode(msgspec.json.encode(value), type=kind) == value


@every_record
def test_what_is_tried_has_a_value_in_every_field(kind: type[msgspec.Struct]) -> None:
    value = filled(kind)
    empty = [field.name for field in msgspec.structs.fields(kind) if getattr(value, field.name) in (None, (), {}, "")]
    assert empty == []


@every_record
def test_a_field_nobody_knows_is_refused(kind: type[msgspec.Struct]) -> None:
    content = msgspec.json.decode(msgspec.json.encode(filled(kind)))
    with pytest.raises(msgspec.ValidationError, match="surprise"):
        msgspec.json.decode(msgspec.json.encode({**content, "surprise": 1}), type=kind)


@every_record
def test_a_record_does_not_change(kind: type[msgspec.Struct]) -> None:
    value = filled(kind)
    name = msgspec.structs.fields(kind)[0].name
    with pytest.raises(AttributeError):
        setattr(value, name, getattr(value, name))


def test_a_shape_with_a_name_in_it_is_not_static() -> None:
    assert TensorSpec(name="x", dtype="float32", shape=(1, 3)).is_static
    assert TensorSpec(name="x", dtype="float32", shape=()).is_static
    assert not TensorSpec(name="x", dtype="float32", shape=(1, "n")).is_static


@pytest.mark.parametrize(("mode", "usable"), [("native", True), ("emulated", True), ("absent", False)])
def test_a_target_is_usable_natively_or_emulated(mode: str, usable: bool) -> None:
    answer = msgspec.convert({"target": "qnn:npu", "resolved": None, "mode": mode}, type=Availability)
    assert answer.usable is usable


def placement(on_target: int, elsewhere: int, at_boundary: int = 0) -> Placement:
    return Placement(
        target="qnn:npu",
        target_nodes=(PLACED,) * on_target,
        fallback_nodes=(FALLBACK,) * elsewhere,
        boundary_nodes=(PLACED,) * at_boundary,
        partitions=1,
        emulated=False,
    )


def test_coverage_leaves_the_boundary_out_and_is_zero_where_nothing_can_be_placed() -> None:
    assert placement(3, 1, at_boundary=2).coverage == 0.75
    assert placement(3, 1, at_boundary=2).total_nodes == 6
    assert placement(0, 0, at_boundary=2).coverage == 0.0


def test_a_graph_is_on_its_target_when_one_node_is() -> None:
    assert placement(1, 9).on_target
    assert not placement(0, 9).on_target
