"""The graph in work: one file after the other, each step kept only if it changed the graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import BuildError
from pytest_winml.graph.difference import difference
from pytest_winml.graph.identity import graph_digest
from pytest_winml.graph.powers import means_of_other_powers
from pytest_winml.graph.precision import is_quantized
from pytest_winml.graph.reading import graphs_of, load_structure
from pytest_winml.pipeline.optimizations import BASIC, Optimization
from pytest_winml.pipeline.optimizing.files import discard, names_in, tidy
from pytest_winml.pipeline.optimizing.fusions import fuse
from pytest_winml.pipeline.optimizing.ort import Pass, Ran, contrib_defaults, transform
from pytest_winml.pipeline.optimizing.preparation import prepare_for_qnn
from pytest_winml.pipeline.optimizing.rewrites import rewrite
from pytest_winml.pipeline.optimizing.transformers import (
    ALL_RULES,
    BASIC_SET,
    KNOWN,
    ON_QUANTIZED_GRAPHS,
    RULES,
    TAKING_EVERY_POWER_FOR_A_SQUARE,
    rule_based,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import onnx


@dataclass(slots=True, kw_only=True)
class Story:
    """What happened to the graph, in ONNX Runtime's names (`transformers`, `always_on`) and in ours (`fired`)."""

    fired: set[str] = field(default_factory=set)
    transformers: set[str] = field(default_factory=set)
    always_on: list[str] = field(default_factory=list)
    held_back: list[str] = field(default_factory=list)
    prepared: bool = False
    left_alone: str | None = None


class Bench:
    """`current` is the file the graph stands in, and `digest` its identity: the source until something changes it.

    `known` are the transformers that can be switched off.
    """

    def __init__(self, source: Path, work: Path, *, level: int, known: frozenset[str] = KNOWN) -> None:
        self.current = source
        self.model = load_structure(source)
        self.digest = self.input_digest = digest_of(source)
        self.story = Story()
        self._source = source
        self._written_out = source
        self._work = work
        self._level = level
        self._known = known
        self._names = names_in(self.model)
        self._as_given = {self.input_digest}  # with what a pass of nothing makes of it
        self._unchanged = self._as_given
        self._files = 0

    def control(self) -> None:
        """A pass with everything off. What it may do is done to every graph that ONNX Runtime opens."""
        ran = self._pass(frozenset(), self._level)
        self._written_out = ran.path
        digest = digest_of(ran.path)
        self._as_given.add(digest)
        if digest == self.input_digest:
            return
        after = load_structure(ran.path)
        change = difference(self.model, after)
        if "CastFloat16Transformer" in ran.modified and "Cast" in change.added and _has_halves(self.model):
            self.story.left_alone = (
                "the CPU lacks kernels for its 16-bit floats, and ONNX Runtime would add casts for good"
            )
        self.story.always_on = [*sorted(ran.modified), *_expanded(self.model, after)]
        if not self.story.always_on:
            raise BuildError(
                f"with every optimization off, ONNX Runtime changed the graph all the same: {change}",
                remedy='use optimize="none", and report the model.',
            )

    def basic(self, *, without: frozenset[str] = frozenset()) -> None:
        """ORT's basic level. A graph that is quantized keeps its Q and DQ as they are."""
        held_back = ON_QUANTIZED_GRAPHS if is_quantized(self.model) else frozenset()
        if means_of_other_powers(self.model, self._source.parent):
            held_back |= TAKING_EVERY_POWER_FOR_A_SQUARE
        self.story.held_back = sorted(held_back & BASIC_SET)
        ran = self._pass(BASIC_SET - without - held_back, BASIC)
        if self._take(ran.path):
            self.story.transformers |= ran.modified

    def start_over(self) -> None:
        self.current, self.digest, self._unchanged = self._source, self.input_digest, self._as_given
        self.story.fired.clear()
        self.story.transformers.clear()

    def named(self, rows: Sequence[Optimization]) -> None:
        """All transformers that the rows name, in one pass, as ONNX Runtime orders them."""
        if not rows:
            return
        self._refuse_to_misread(rows)
        before = self.current
        ran = self._pass_of(rows)
        if self._take(ran.path):
            self.story.transformers |= ran.modified
            self.story.fired |= {row.name for row in rows if ran.modified & {*row.transformers}}
            if any(rule_based(level) in ran.modified for level in RULES):
                self.story.fired |= self._rules_that_fired(rows, before)

    def _refuse_to_misread(self, rows: Sequence[Optimization]) -> None:
        misread = next((row.name for row in rows if TAKING_EVERY_POWER_FOR_A_SQUARE & {*row.transformers}), None)
        if misread and (powers := means_of_other_powers(load_structure(self.current), self.current.parent)):
            raise BuildError(
                f"{misread}: ONNX Runtime would take the power {powers[0]!r}, whose exponent is not 2, for a square",
                remedy="leave it out, and what needs it.",
            )

    def _rules_that_fired(self, rows: Sequence[Optimization], before: Path) -> set[str]:
        """The log does not tell rules apart: one fired if the graph is another without it."""
        ruled = [row for row in rows if ALL_RULES & {*row.transformers}]
        if len(ruled) == 1:
            return {ruled[0].name}
        after, self.current = self.current, before

        def without(row: Optimization) -> str:
            path = self._pass_of([one for one in rows if one is not row]).path
            digest = digest_of(path)
            discard(path)
            return digest

        fired = {row.name for row in ruled if without(row) != self.digest}
        self.current = after
        return fired

    def fused(self, name: str) -> None:
        """From a file that the runtime wrote: fusions take an attribute that is left out for their own default."""
        self._edited(name, fuse, self._written_out if self.current == self._source else self.current)

    def rewritten(self, name: str) -> None:
        self._edited(name, rewrite, self.current)

    def _edited(self, name: str, edit: Callable[[str, Path, Path], bool], source: Path) -> None:
        target = self._next()
        if edit(name, source, target):
            tidy(target, self._names)
            if self._take(target):
                self.story.fired.add(name)

    def prepared_for_qnn(self) -> None:
        """Nothing is to be prepared in a graph that is quantized already."""
        target = self._next()
        if not is_quantized(self.model) and prepare_for_qnn(self.current, target):
            tidy(target, self._names)
            self.digest = digest_of(target)
            self.story.prepared = self.digest not in self._unchanged
            self.current = target  # in any case: nodes may have got names, which the quantizer needs

    def _pass_of(self, rows: Sequence[Optimization]) -> Ran:
        wanted = frozenset(name for row in rows for name in row.transformers)
        config = tuple(dict.fromkeys(entry for row in rows for entry in row.config))
        return self._pass(wanted, self._level, required=wanted, config=config)

    def _pass(
        self,
        wanted: frozenset[str],
        level: int,
        *,
        required: frozenset[str] = frozenset(),
        config: tuple[tuple[str, str], ...] = (),
    ) -> Ran:
        asked = Pass(wanted=wanted, level=level, required=required, config=config)
        ran = transform(self.current, self._next(), asked, known=self._known)
        tidy(ran.path, self._names)
        return ran

    def _next(self) -> Path:
        self._files += 1
        return self._work / f"{self._files}.onnx"

    def _take(self, path: Path) -> bool:
        """Makes it the current graph, if it is another one."""
        digest = digest_of(path)
        if digest in self._unchanged:
            discard(path)
            return False
        self.current, self.digest = path, digest
        self._unchanged = {digest}
        self._names |= names_in(load_structure(path))
        return True


def digest_of(path: Path) -> str:
    return graph_digest(load_structure(path), path.parent, defaults=contrib_defaults)


def _has_halves(model: onnx.ModelProto) -> bool:
    from onnx import TensorProto

    halves = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
    for graph in graphs_of(model.graph):
        values = (*graph.input, *graph.output, *graph.value_info)
        if any(tensor.data_type in halves for tensor in graph.initializer):
            return True
        if any(value.type.tensor_type.elem_type in halves for value in values):
            return True
    return False


def _expanded(before: onnx.ModelProto, after: onnx.ModelProto) -> list[str]:
    """Operators that are written out as others: functions of the model, and those the CPU has no kernel for."""
    import onnx

    gone = difference(before, after).removed
    local = {f"{function.domain}.{function.name}" for function in before.functions}
    versions = {entry.domain: entry.version for entry in before.opset_import}

    def is_function(name: str) -> bool:
        domain, _, op_type = name.rpartition(".")
        if name in local:
            return True
        version = versions.get(domain, versions.get("ai.onnx", 1))
        if not onnx.defs.has(op_type, version, domain):
            return False
        schema: Any = onnx.defs.get_schema(op_type, version, domain)
        return bool(schema.has_function or schema.has_context_dependent_function)

    return [f"expansion of {name}" for name in sorted(gone) if is_function(name)]
