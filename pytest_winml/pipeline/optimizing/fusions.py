"""Fusions of `onnxruntime.transformers`, each alone.

Its `optimize_model` prunes, reshapes and casts around the fusions that are asked for, so the fusions are taken out of
it one by one. They leave half their work behind where a pattern turns out not to match: a graph without the fused node
is thrown away.
"""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import BuildError
from pytest_winml.pipeline.optimizing.files import load_whole, save_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def fuse(name: str, source: Path, target: Path) -> bool:
    """Whether the pattern was there; if so, `target` is the graph after it."""
    from onnxruntime.transformers.onnx_model import OnnxModel

    make, fused_type = _FUSIONS[name]
    model = OnnxModel(load_whole(source))
    before = _count(model, fused_type)
    inputs = tuple(value.SerializeToString() for value in model.model.graph.input)
    try:
        # They print advice about exporters, which belongs to nobody here.
        with contextlib.redirect_stdout(io.StringIO()):
            make(model).apply()
            if _count(model, fused_type) == before:
                return False
            model.prune_graph(allow_remove_graph_inputs=False)
            model.topological_sort()
    except Exception as error:
        raise BuildError(
            f"{name}: ONNX Runtime's fusion failed on this graph with {type(error).__name__}: {error}",
            remedy="leave it out.",
        ) from error
    _declare(model.model, "com.microsoft")
    _restore_inputs(model.model.graph, inputs)
    save_whole(model.model, target)
    return True


def _attention(model: Any) -> Any:
    from onnxruntime.transformers.fusion_attention import AttentionMask, FusionAttention
    from onnxruntime.transformers.fusion_options import AttentionMaskFormat

    mask = AttentionMask(model)
    # The default counts the ones of a mask, which is only right for padding at the end.
    mask.set_mask_format(AttentionMaskFormat.AttentionMask)
    return FusionAttention(model, 0, 0, mask)  # hidden size and heads are read off the graph


def _embeddings(model: Any) -> Any:
    from onnxruntime.transformers.fusion_embedlayer import FusionEmbedLayerNormalization

    return FusionEmbedLayerNormalization(model)


_FUSIONS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "attention_fusion": (_attention, "Attention"),
    "embed_layer_norm_fusion": (_embeddings, "EmbedLayerNormalization"),
}


def _count(model: Any, op_type: str) -> int:
    return len(model.get_nodes_by_op_type(op_type))


def _declare(model: Any, domain: str) -> None:
    if all(entry.domain != domain for entry in model.opset_import):
        model.opset_import.add(domain=domain, version=1)


def _restore_inputs(graph: Any, inputs: tuple[bytes, ...]) -> None:
    """A fusion drops the inputs that it makes superfluous; callers feed them all the same."""
    del graph.input[:]
    for value in inputs:
        graph.input.add().ParseFromString(value)
