"""What the maker of an EP documents as the preparation of a graph for quantization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_winml.errors import BuildError
from pytest_winml.graph.reading import load_structure, opset
from pytest_winml.pipeline.optimizing.files import load_whole

if TYPE_CHECKING:
    from pathlib import Path

_FIRST_OPSET_WITH_LAYER_NORM: Final = 17


def prepare_for_qnn(source: Path, target: Path) -> bool:
    """Erf-GELU, ReduceL2 normalization, space-to-depth and LayerNorm patterns become the operators that QNN takes.

    Whether there was one, or a node without a name, which the quantizer cannot do with; if so, `target` is the graph
    after it. ONNX Runtime's function for it applies the basic level once more, and stumbles over a file's metadata.
    """
    from onnxruntime.quantization.execution_providers.qnn import qnn_preprocess_model

    model = load_whole(source)
    metadata = [(entry.key, entry.value) for entry in model.metadata_props]
    del model.metadata_props[:]
    try:
        changed = qnn_preprocess_model(
            model,
            target,
            fuse_layernorm=opset(model) >= _FIRST_OPSET_WITH_LAYER_NORM,
            save_as_external_data=True,
            all_tensors_to_one_file=True,
            external_data_location=f"{target.name}.data",
        )
    except Exception as error:
        raise BuildError(
            f"the preparation for QNN failed on this graph with {type(error).__name__}: {error}",
            remedy='use optimize="none".',
        ) from error
    if not changed:
        return False
    prepared = load_structure(target)
    del prepared.metadata_props[:]
    for key, value in metadata:
        prepared.metadata_props.add(key=key, value=value)
    target.write_bytes(prepared.SerializeToString(deterministic=True))
    return True
