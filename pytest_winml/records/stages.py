"""What each build stage is asked for and what it answers. Stages run in worker processes; these are the messages.

Every stage writes into `output_folder`, which exists and is empty, a `model.onnx` (weights beside it in
`model.onnx.data` when they are large), and answers with what is true of it, not with what was asked for.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from pytest_winml.records.artifact import TensorSpec
from pytest_winml.records.base import Record
from pytest_winml.records.target import Target

MODEL_FILE = "model.onnx"
Fact = str | int | float | bool | None | list[str] | dict[str, int | float | str]


class StageAnswer(Record, frozen=True, kw_only=True):
    """`facts` are what a person reads in the provenance: the opset that came out, nodes by type before and after, ...

    `inputs` carry value ranges where the stage knows them (export does); `no_op` says the graph is what it was before.
    """

    facts: dict[str, Fact] = msgspec.field(default_factory=dict)
    inputs: tuple[TensorSpec, ...] = ()
    no_op: bool = False


class ImportRequest(Record, frozen=True, kw_only=True):
    """An ONNX file as it is, with fixed shapes where the user gives them (by input name, or by position as `#0`)."""

    model_path: str
    shapes: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    output_folder: str


class ExportRequest(Record, frozen=True, kw_only=True):
    """A Hugging Face model: a local directory, or a hub id (`offline` forbids the network)."""

    source: str
    task: str
    weights: Literal["pretrained", "random"]
    config_json: str = "{}"
    revision: str | None = None
    component: str | None = None
    opset: int = 17
    exporter: Literal["torchscript", "dynamo"] = "torchscript"
    shapes: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    seed: int = 0
    offline: bool = False
    output_folder: str


class OptimizeRequest(Record, frozen=True, kw_only=True):
    """`names` are optimizations in `pipeline/optimizations.py`; `base` is ORT's level below them.

    `preparation` is the EP's documented preparation before quantization (`qnn`: Erf-GELU and LayerNorm patterns to the
    single operators that QNN takes).
    """

    model_path: str
    base: Literal["none", "basic"]
    preparation: Literal["qnn"] | None = None
    names: tuple[str, ...] = ()
    output_folder: str


class QuantizeRequest(Record, frozen=True, kw_only=True):
    """`feeds_path` is an .npz of calibration inputs (leading axis = sample), or None where a precision needs none."""

    model_path: str
    precision: Literal["fp16", "w8a8", "w8a16", "w4a16", "dynamic"]
    family: Literal["qnn", "generic"]
    method: Literal["minmax", "entropy", "percentile"] = "minmax"
    per_channel: bool = False
    feeds_path: str | None = None
    exclude_nodes: tuple[str, ...] = ()
    tensor_types: dict[str, str] = msgspec.field(default_factory=dict)
    output_folder: str


class CompileRequest(Record, frozen=True, kw_only=True):
    """EPContext for a resolved target; `settings` is the encoded `ProviderSettings` of the run."""

    model_path: str
    target: Target
    settings: bytes
    embed: bool = False
    output_folder: str
