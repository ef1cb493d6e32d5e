"""A PyTorch model on the CPU in float32: from safetensors, or with seeded random weights."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pytest_winml.errors import ModelError
from pytest_winml.pipeline.export.failures import told_as

if TYPE_CHECKING:
    from pytest_winml.pipeline.export.source import Source
    from pytest_winml.records.stages import ExportRequest

_EAGER = "eager"  # fused attention exports as patterns that NPU compilers do not know


def load(model_class: Any, config: Any, source: Source, request: ExportRequest) -> tuple[Any, tuple[str, ...]]:
    """The model in eval mode, and the names of weights that its files lack: those are made up (seeded)."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.set_seed(request.seed)
    what = f"the {config.model_type} model {source.name!r} cannot be loaded for {request.task}"
    with told_as(ModelError, what, _remedy(request)):
        if request.weights == "random":
            return _random(model_class, config).eval(), ()
        model, missing = _pretrained(model_class, config, source)
    _refuse_numbers_that_are_none(model, source)
    return model.eval(), missing


def _random(model_class: Any, config: Any) -> Any:
    import torch

    if hasattr(config, "use_pretrained_backbone"):
        config.use_pretrained_backbone = False  # would be a download
    return model_class.from_config(
        config, attn_implementation=_EAGER, torch_dtype=torch.float32, trust_remote_code=False
    )


def _pretrained(model_class: Any, config: Any, source: Source) -> tuple[Any, tuple[str, ...]]:
    import torch

    assert source.folder is not None  # noqa: S101 - for mypy; find() gives pretrained models a folder
    model, report = model_class.from_pretrained(
        os.fspath(source.folder),
        config=config,
        attn_implementation=_EAGER,
        torch_dtype=torch.float32,
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
        output_loading_info=True,
    )
    return model, tuple(sorted(report["missing_keys"]))


def _refuse_numbers_that_are_none(model: Any, source: Source) -> None:
    import torch

    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            raise ModelError(
                f"weight {name!r} of {source.name} holds NaN or infinity", remedy="download the weights again."
            )


def _remedy(request: ExportRequest) -> str:
    return "check the values in config=." if request.weights == "random" else "check the files in its folder."
