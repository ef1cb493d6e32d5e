"""One pass of ONNX Runtime over a graph, with the transformers that are wanted on and all others off.

The runtime can only be told what to leave out, and takes names it does not know without a word. So the claim is checked
against its log: what ran must be what was wanted, and what was wanted must have run.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.errors import BuildError
from pytest_winml.execute.log import redact
from pytest_winml.pipeline.optimizing.saving import Saving, save
from pytest_winml.pipeline.optimizing.transformers import ALL_RULES, ALWAYS_ON, KNOWN, RULES, rule_based

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import AttributeProto

_RAN = re.compile(r"GraphTransformer (\S+) modified: ([01])")
_CHATTER = re.compile(r"\[[VI]:onnxruntime")
_TAIL_LINES = 20
_SMALLEST_EXTERNAL_BYTES = 1024
_CONFIG = {"session.disable_prepacking": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What to switch on, at which level, with which session options. What is `required` must be in this runtime."""

    wanted: frozenset[str]
    level: int
    required: frozenset[str] = frozenset()
    config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """Where the graph went, which transformers ran over it, and which of them say that they changed it."""

    path: Path
    applied: frozenset[str]
    modified: frozenset[str]


def transform(source: Path, target: Path, asked: Pass, *, known: frozenset[str] = KNOWN) -> Ran:
    """Writes the graph to `target`, its weights beside it; a `BuildError` if anything else than `asked` ran."""
    for rule in sorted(asked.required & ALL_RULES):
        # Rules do not appear in the log by name.
        if not _has_rule(rule):
            raise _lacks(rule)
    ran = _run(source, target, asked, known)
    if missing := sorted(asked.required - ran.applied - ALL_RULES):
        raise _lacks(missing[0])
    allowed = asked.wanted | ALWAYS_ON | {rule_based(level) for level in RULES if asked.wanted & {*RULES[level]}}
    if unknown := sorted(ran.applied - allowed):
        why = "holds rules that are not in the table" if "RuleBased" in unknown[0] else "is not in the table"
        raise BuildError(
            f"{_version()} ran the graph transformer {unknown[0]!r} unasked: it {why}",
            remedy='use optimize="none", or a version of pytest-winml that knows this runtime.',
        )
    return ran


def _lacks(name: str) -> BuildError:
    return BuildError(
        f"{_version()} on this machine has no graph transformer {name!r}",
        remedy="leave out the optimization that needs it.",
    )


@cache
def _has_rule(rule: str) -> bool:
    import onnx
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "probe", values[:1], values[1:])
    probe = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with tempfile.TemporaryDirectory(prefix="winml-probe-") as folder:
        path = Path(folder, "probe.onnx")
        onnx.save(probe, os.fspath(path))
        config = (("optimization.enable_cast_chain_elimination", "1"),)
        asked = Pass(wanted=frozenset({rule}), level=max(RULES), config=config)
        ran = _run(path, Path(folder, "out.onnx"), asked, KNOWN)
    return any(rule_based(level) in ran.applied for level in RULES)  # they are only there if they hold a rule


def _run(source: Path, target: Path, asked: Pass, known: frozenset[str]) -> Ran:
    saved = save(
        Saving(
            source=os.fspath(source),
            target=os.fspath(target),
            level=asked.level,
            config={**_CONFIG, **_weights_beside(target), **dict(asked.config)},
            disabled=tuple(sorted(known - asked.wanted)),
        )
    )
    if saved.failure is not None:
        raise BuildError(
            f"{_version()} cannot take the graph on its CPU: {redact(saved.failure)}",
            remedy='use optimize="none" if the graph is only for another EP.',
            log_tail=_worth_reading(saved.log),
        )
    found = _RAN.findall(saved.log)
    if not found or not target.is_file():
        raise BuildError(
            f"{_version()} left no log of its graph transformers, so what it did is not known",
            remedy='use optimize="none".',
            log_tail=_worth_reading(saved.log),
        )
    return Ran(
        path=target,
        applied=frozenset(name for name, _ in found),
        modified=frozenset(name for name, changed in found if changed == "1"),
    )


def _weights_beside(target: Path) -> dict[str, str]:
    return {
        "session.optimized_model_external_initializers_file_name": f"{target.name}.data",
        "session.optimized_model_external_initializers_min_size_in_bytes": str(_SMALLEST_EXTERNAL_BYTES),
    }


def contrib_defaults(domain: str, op_type: str, version: int) -> Mapping[str, AttributeProto]:
    """The attribute defaults of the runtime's own operators, which it writes into every graph that it saves."""
    return _contrib_schemas(domain).get((op_type, version), {})


@cache
def _contrib_schemas(domain: str) -> Mapping[tuple[str, int], Mapping[str, AttributeProto]]:
    from onnx import AttributeProto
    from onnxruntime.capi import onnxruntime_pybind11_state as native

    return {
        (schema.name, schema.since_version): {
            name: AttributeProto.FromString(attribute._default_value)  # noqa: SLF001 - there is no other way to it
            for name, attribute in schema.attributes.items()
            if attribute._default_value  # noqa: SLF001
        }
        for schema in native.get_all_operator_schema()
        if schema.domain == domain
    }


def _worth_reading(text: str) -> str:
    lines = [line for line in text.splitlines() if not _CHATTER.search(line)]
    return redact("\n".join(lines[-_TAIL_LINES:]))


def _version() -> str:
    import onnxruntime as ort

    return f"onnxruntime {ort.__version__}"
