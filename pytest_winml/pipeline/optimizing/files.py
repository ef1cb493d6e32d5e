"""Model files between and after the steps: tidy, with the same bytes for the same graph wherever it was made."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, Any, Final

from pytest_winml.graph.reading import external_files, graphs_of, load_structure
from pytest_winml.records.stages import MODEL_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import onnx

_EMBED_BELOW_BYTES: Final = 1_500_000_000  # one protobuf holds 2 GB at the most
_COUNTED = re.compile(r"(.+)_token_\d+")


def load_whole(path: Path) -> onnx.ModelProto:
    """The model with its weights in memory; their paths are checked first."""
    import onnx

    structure = load_structure(path)
    if external_files(structure, path.parent):
        onnx.load_external_data_for_model(structure, os.fspath(path.parent))
    return structure


def save_whole(model: onnx.ModelProto, path: Path) -> None:
    """With the weights in one file beside the model, which has no limit of size."""
    import onnx

    onnx.save(model, os.fspath(path), save_as_external_data=True, location=f"{path.name}.data")


def discard(path: Path) -> None:
    """With its weights, which may be large: disks fill up."""
    path.unlink()
    path.with_name(f"{path.name}.data").unlink(missing_ok=True)


def publish(source: Path, output_folder: Path, *, embed_below_bytes: int = _EMBED_BELOW_BYTES) -> None:
    """The model as `model.onnx`, with `model.onnx.data` beside it where the weights are large."""
    files = external_files(load_structure(source), source.parent)
    target = output_folder / MODEL_FILE
    if not files:
        shutil.copyfile(source, target)
        return
    model = load_whole(source)
    if sum(file.stat().st_size for file in (source, *files)) < embed_below_bytes:
        target.write_bytes(model.SerializeToString(deterministic=True))
    else:
        save_whole(model, target)


def tidy(path: Path, names_to_keep: frozenset[str]) -> None:
    """Takes back what a tool leaves in a file that says nothing of the graph, or that harms its next reader.

    ONNX Runtime declares every operator set it has. It makes up names (`gemm_input_shape`, `gemm_input_shape_token_3`),
    makes up the same ones when it opens such a file, and then refuses it since a tensor of that name exists. So made-up
    names become others (`gemm_input_shape.1`). Exporters leave the paths of their sources in comments.
    """
    structure = load_structure(path)
    new_names = _better_names(structure.graph, names_to_keep)
    for graph in graphs_of(structure.graph):
        _rename(graph, new_names)
        graph.ClearField("doc_string")
        for node in graph.node:
            node.ClearField("doc_string")
            kept = [entry for entry in node.metadata_props if "stack_trace" not in entry.key]
            del node.metadata_props[:]
            node.metadata_props.extend(kept)
    used = {node.domain for graph in graphs_of(structure.graph) for node in graph.node} | {"", "ai.onnx"}
    used.update(node.domain for function in structure.functions for node in function.node)
    kept_sets = [entry for entry in structure.opset_import if entry.domain in used]
    del structure.opset_import[:]
    structure.opset_import.extend(kept_sets)
    structure.ClearField("doc_string")
    path.write_bytes(structure.SerializeToString(deterministic=True))


def names_in(model: onnx.ModelProto) -> frozenset[str]:
    """Of every node and tensor."""
    graphs = tuple(graphs_of(model.graph))
    return frozenset(name for graph in graphs for name in (*_tensor_names(graph), *_node_names(graph)))


def _tensor_names(graph: onnx.GraphProto) -> Iterator[str]:
    for value in (*graph.input, *graph.output, *graph.initializer):
        yield value.name
    for node in graph.node:
        yield from filter(None, node.output)


def _node_names(graph: onnx.GraphProto) -> Iterator[str]:
    return (node.name for node in graph.node if node.name)


def _better_names(graph: onnx.GraphProto, keep: frozenset[str]) -> dict[str, str]:
    """For tensors that are not to be kept, and for nodes that were counted."""
    graphs = tuple(graphs_of(graph))
    tensors = {name: None for inner in graphs for name in _tensor_names(inner)}
    counted = {name: None for inner in graphs for name in _node_names(inner) if _COUNTED.fullmatch(name)}
    taken = {*keep, *tensors, *counted}
    better = {}
    for name in {**tensors, **counted}:
        if name not in keep:
            match = _COUNTED.fullmatch(name)
            stem = match[1] if match else name
            number = 1
            while (new := f"{stem}.{number}") in taken:
                number += 1
            taken.add(new)
            better[name] = new
    return better


def _rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    named: tuple[Any, ...] = (*graph.input, *graph.output, *graph.initializer, *graph.value_info, *graph.node)
    for one in named:
        if one.name in names:
            one.name = names[one.name]
    for node in graph.node:
        for tensors in (node.input, node.output):
            for place, name in enumerate(tensors):
                if name in names:
                    tensors[place] = names[name]
