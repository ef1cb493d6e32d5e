"""Rewrites of our own, as rules for onnxscript's rewriter."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pytest_winml.pipeline.optimizing.files import load_whole, save_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_MOST_DIMENSIONS = 4  # what every NPU moves natively
_INFERRED = -1
_COPIED = 0


def rewrite(name: str, source: Path, target: Path) -> bool:
    """Whether the pattern was there; if so, `target` is the graph after it."""
    import onnx_ir as ir

    # Not by `ir.load`: it maps the weights' file, which Windows then does not let anybody delete.
    model = ir.serde.deserialize_model(load_whole(source))
    if not _RULES[name]().apply_to_model(model):
        return False
    save_whole(ir.serde.serialize_model(model), target)
    return True


def _fewer_dimensions() -> Any:
    """Reshape, Transpose, Reshape: the shape in between loses axes of one element and joins those that move together.

    Both shapes must be written in the graph, without sizes that are copied by position (0): positions change.
    """
    from onnxscript.rewriter.pattern import RewriteRule, RewriteRuleSet

    def pattern(op: Any, x: Any, first: Any, last: Any) -> Any:
        split = op.Reshape(x, first, _allow_other_attributes=True)
        turned = op.Transpose(split, _allow_other_attributes=True, _outputs=["turned"])
        return op.Reshape(turned, last, _allow_other_attributes=True, _outputs=["joined"])

    def can_lose(_context: Any, first: Any, last: Any, turned: Any, **_others: Any) -> bool:
        shape, result = _constant(first), _constant(last)
        if not shape or not result or _COPIED in (*shape, *result) or len(shape) <= _MOST_DIMENSIONS:
            return False
        return len(simpler(shape, _order(turned, len(shape)))[0]) < len(shape)

    def replacement(op: Any, x: Any, first: Any, last: Any, **found: Any) -> Any:
        shape = _constant(first)
        fewer, order = simpler(shape, _order(found["turned"], len(shape)))
        if order != tuple(range(len(order))):
            split = op.Reshape(x, op.initializer(_shape(fewer), name=f"{found['joined'].name}_split_shape"))
            x = op.Transpose(split, perm=list(order))
        return op.Reshape(x, last)

    return RewriteRuleSet([RewriteRule(pattern, replacement, can_lose)])


def simpler(shape: Sequence[int], order: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A shape and an order of its axes that move the elements just so, with as few axes as possible.

    >>> simpler((2, 1, 3, 4, 5), (3, 4, 0, 1, 2))
    ((6, 20), (1, 0))
    """
    groups: list[list[int]] = []
    previous = None
    axes = [axis for axis in range(len(shape)) if shape[axis] != 1]
    place = {axis: number for number, axis in enumerate(axes)}
    for axis in (axis for axis in order if axis in place):
        if previous is not None and place[axis] == place[previous] + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
        previous = axis
    if not groups:
        return (1,), (0,)
    in_place = sorted(range(len(groups)), key=lambda number: groups[number][0])
    sizes = tuple(_product([shape[axis] for axis in groups[number]]) for number in in_place)
    return sizes, tuple(in_place.index(number) for number in range(len(groups)))


def _product(sizes: Sequence[int]) -> int:
    return _INFERRED if _INFERRED in sizes else math.prod(sizes)


def _constant(value: Any) -> tuple[int, ...]:
    """The sizes in a constant; none where it is not one."""
    tensor = value.const_value
    return () if tensor is None else tuple(int(size) for size in tensor.numpy().ravel())


def _order(turned: Any, rank: int) -> tuple[int, ...]:
    perm = turned.producer().attributes.get("perm")
    return tuple(range(rank))[::-1] if perm is None else tuple(perm.as_ints())


def _shape(sizes: tuple[int, ...]) -> Any:
    import numpy as np
    import onnx_ir as ir

    return ir.tensor(np.array(sizes, dtype=np.int64))


_RULES: Mapping[str, Callable[[], Any]] = {"highdim_rtr_lowdim_rtr": _fewer_dimensions}
