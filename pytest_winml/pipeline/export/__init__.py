"""Hugging Face models to ONNX: Optimum's configs, TorchScript or dynamo, fixed shapes, and a check against PyTorch."""

from pytest_winml.pipeline.export.stage import export

__all__ = ["export"]
