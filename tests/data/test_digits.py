from __future__ import annotations

import hashlib
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from pytest_winml.data import digits
from pytest_winml.errors import ModelError, UsageProblem

EVERY_FILE = tuple(product(digits.EMBEDDED_MODELS, digits.EMBEDDED_PRECISIONS))
QUANTIZED = tuple((name, precision) for name, precision in EVERY_FILE if precision != "fp32")
LEAST_TOP1 = {"fp32": 0.95, "w8a16": 0.95, "w8a8": 0.90}

every_file = pytest.mark.parametrize(("name", "precision"), EVERY_FILE)
quantized_file = pytest.mark.parametrize(("name", "precision"), QUANTIZED)


def load(name: str, precision: str) -> onnx.ModelProto:
    return onnx.load(digits.model_path(name, precision))


def recorded(name: str, precision: str) -> digits.EmbeddedFile:
    (entry,) = (entry for entry in digits.manifest().files if (entry.model, entry.precision) == (name, precision))
    return entry


def shape_of(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def top1_on_cpu(path: Path) -> float:
    ort: Any = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    images = digits.held_out()
    predicted = [session.run(["logits"], {"image": image[np.newaxis]})[0].argmax() for image in images.images]
    return float(np.mean(np.array(predicted) == images.labels))


def test_the_manifest_names_every_file_of_the_folder() -> None:
    manifest = digits.manifest()
    folder = digits.model_path("digits-cnn", "fp32").parent
    named = {entry.file for entry in manifest.files} | {entry.file for entry in manifest.image_sets}
    assert named | {"digits.json"} == {path.name for path in folder.iterdir()}
    assert [(entry.model, entry.precision) for entry in manifest.files] == list(EVERY_FILE)


def test_files_are_those_the_manifest_was_written_for() -> None:
    manifest = digits.manifest()
    folder = digits.model_path("digits-cnn", "fp32").parent
    entries: list[digits.EmbeddedFile | digits.EmbeddedImages] = [*manifest.files, *manifest.image_sets]
    for entry in entries:
        content = (folder / entry.file).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (entry.sha256, entry.size_bytes), entry.file


def test_the_package_stays_small() -> None:
    sizes = {path.name: path.stat().st_size for path in digits.model_path("digits-cnn", "fp32").parent.iterdir()}
    assert all(size < 200_000 for size in sizes.values()), sizes
    assert sum(sizes.values()) < 1_200_000


def test_no_held_out_image_is_among_the_calibration_images() -> None:
    seen = {image.tobytes() for image in digits.calibration().images}
    unseen = {image.tobytes() for image in digits.held_out().images}
    assert len(seen) == 1437
    assert len(unseen) == 360
    assert not seen & unseen


@pytest.mark.parametrize("load_set", [digits.held_out, digits.calibration])
def test_images_have_the_type_and_range_the_models_take(load_set: Any) -> None:
    images: digits.ImageSet = load_set()
    assert images.images.dtype == np.dtype(np.float32)
    assert images.labels.dtype == np.dtype(np.int64)
    assert images.images.shape == (len(images), 1, 8, 8)
    assert (images.images.min(), images.images.max()) == (0.0, 1.0)
    assert set(images.labels.tolist()) == set(range(10))


def test_image_counts_are_those_of_the_manifest() -> None:
    counts = {entry.name: entry.images for entry in digits.manifest().image_sets}
    assert counts == {"calibration": len(digits.calibration()), "held_out": len(digits.held_out())}


@every_file
def test_held_out_digits_are_read_rightly_on_the_cpu(name: str, precision: str) -> None:
    top1 = top1_on_cpu(digits.model_path(name, precision))
    assert top1 > LEAST_TOP1[precision]
    # Another processor may round an integer kernel otherwise and turn an image or two.
    assert top1 == pytest.approx(recorded(name, precision).held_out_top1, abs=0.01)


@every_file
def test_models_pass_the_onnx_checker(name: str, precision: str) -> None:
    onnx.checker.check_model(load(name, precision), full_check=True)


@every_file
def test_models_take_one_image_and_give_ten_logits(name: str, precision: str) -> None:
    graph = load(name, precision).graph
    assert [(value.name, shape_of(value)) for value in graph.input] == [("image", (1, 1, 8, 8))]
    assert [(value.name, shape_of(value)) for value in graph.output] == [("logits", (1, 10))]
    float_type = onnx.TensorProto.FLOAT
    assert {value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)} == {float_type}


@every_file
def test_every_node_has_a_name_of_its_own(name: str, precision: str) -> None:
    names = [node.name for node in load(name, precision).graph.node]
    assert all(names)
    assert len(set(names)) == len(names)
    assert not [node for node in names if "_token_" in node], "names that the optimiser numbered"


@every_file
def test_only_standard_operators_and_no_leftovers(name: str, precision: str) -> None:
    model = load(name, precision)
    opset = 17 if precision == "fp32" else 21
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", opset)]
    assert {node.domain for node in model.graph.node} == {""}
    leftovers = {"Constant", "Dropout", "Identity", "BatchNormalization", "FusedConv"}
    assert not leftovers & {node.op_type for node in model.graph.node}


@pytest.mark.parametrize(
    ("name", "characteristic"),
    [
        ("digits-cnn", {"Conv", "Relu", "MaxPool", "Add", "GlobalAveragePool", "Gemm"}),
        ("digits-vit", {"Conv", "LayerNormalization", "MatMul", "Softmax", "Erf", "Add", "Gemm"}),
    ],
)
def test_each_network_has_the_operators_of_its_kind(name: str, characteristic: set[str]) -> None:
    assert characteristic <= {node.op_type for node in load(name, "fp32").graph.node}


@quantized_file
def test_activations_are_quantized_to_the_width_in_the_name(name: str, precision: str) -> None:
    graph = load(name, precision).graph
    kinds = {tensor.name: tensor.data_type for tensor in graph.initializer}
    quantized = {kinds[node.input[2]] for node in graph.node if node.op_type == "QuantizeLinear"}
    assert quantized == {onnx.TensorProto.UINT16 if precision == "w8a16" else onnx.TensorProto.UINT8}


@quantized_file
def test_nodes_keep_their_names_from_the_fp32_file(name: str, precision: str) -> None:
    """So that a loss found in the QDQ file can be looked up in the float one; Gelu alone is several nodes there."""
    float_names = {node.name for node in load(name, "fp32").graph.node}
    boundary_ops = {"QuantizeLinear", "DequantizeLinear", "Gelu"}
    others = {node.name for node in load(name, precision).graph.node if node.op_type not in boundary_ops}
    assert others <= float_names


def test_a_misspelt_model_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageProblem, match="unknown embedded model 'digit-cnn'") as raised:
        digits.model_path("digit-cnn", "fp32")
    assert raised.value.remedy == "did you mean 'digits-cnn'?"


def test_a_misspelt_precision_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageProblem, match="unknown precision of digits-vit 'w8a61'") as raised:
        digits.model_path("digits-vit", "w8a61")
    assert raised.value.remedy == "did you mean 'w8a16'?"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"schema_version": 2, "later": true}', "schema version 2, and this version reads 1"),
        (b'{"schema_version": 1}', "missing required field"),
        (b"{", "cannot be read"),
        (None, "cannot be read"),
    ],
)
def test_a_manifest_of_another_kind_is_refused_with_what_to_do(
    content: bytes | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "digits.json").write_bytes(content)
    monkeypatch.setattr(digits, "_FOLDER", tmp_path)
    with pytest.raises(ModelError, match=told) as raised:
        digits.manifest()
    assert "reinstall" in str(raised.value)


@pytest.mark.parametrize("content", [b"not an archive", b"PK\x03\x04 cut short", b"", None])
def test_images_that_are_no_archive_are_refused_with_what_to_do(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "held_out.npz").write_bytes(content)
    monkeypatch.setattr(digits, "_FOLDER", tmp_path)
    with pytest.raises(ModelError, match=r"held_out\.npz cannot be read") as raised:
        digits.held_out()
    assert "reinstall" in str(raised.value)


def test_naming_the_models_imports_nothing_heavy() -> None:
    # The path is handed over: a child need not inherit how this process found the package.
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pytest_winml.data import digits;"
        " digits.model_path('digits-cnn', 'fp32'); digits.manifest();"
        " print([name for name in ('numpy', 'onnx', 'onnxruntime') if name in sys.modules])"
    )
    root = str(Path(digits.__file__).parents[2])
    finished = subprocess.run([sys.executable, "-c", script, root], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"
