from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from pytest_winml.data.digits import model_path
from pytest_winml.errors import InfrastructureError, ModelError
from pytest_winml.graph.reading import boundary_names, external_files, load_structure, opset, read_io
from tests.graph.graphs import constant, external, model, relu, value

WHOLE = model_path("digits-cnn", "w8a8").read_bytes()


def refusal(path: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        load_structure(path)
    assert str(path) in caught.value.message
    assert caught.value.remedy
    return caught.value


# --- load_structure


def test_a_model_is_read(tmp_path: Path) -> None:
    onnx.save(relu(), tmp_path / "m.onnx")
    assert [node.name for node in load_structure(tmp_path / "m.onnx").graph.node] == ["relu"]


def test_external_weights_stay_on_the_disk(tmp_path: Path) -> None:
    made = relu(weights=[external("w", "not-even-there.bin")])
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    (tensor,) = load_structure(tmp_path / "m.onnx").graph.initializer
    assert not tensor.raw_data


def test_a_missing_file_is_named_with_where_relative_paths_start(tmp_path: Path) -> None:
    problem = refusal(tmp_path / "gone.onnx")
    assert "does not exist" in problem.message
    assert "rootdir" in str(problem.remedy)


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path).message


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    assert "is empty" in refusal(tmp_path / "m.onnx").message


@pytest.mark.parametrize("kept", [len(WHOLE) // 10, len(WHOLE) // 2, len(WHOLE) - 1])
def test_a_file_that_is_cut_short_is_refused(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(WHOLE[:kept])
    assert "is not ONNX, or is cut short" in refusal(path).message


@pytest.mark.parametrize("name", ["m.onnx", "m.json", "m.textproto", "m.onnxtxt", "m"])
@pytest.mark.parametrize("content", [b"\xff\xfe not a model", b"version https://git-lfs.github.com/spec/v1\n"])
def test_what_is_no_model_is_refused_whatever_it_is_called(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert "is not ONNX" in refusal(tmp_path / name).message


def test_a_model_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_bytes(relu().SerializeToString())
    assert len(load_structure(tmp_path / "m.json").graph.node) == 1


def test_a_file_without_a_graph_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(helper.make_graph([], "empty", [], [])).SerializeToString())
    assert "holds no graph" in refusal(path).message


def test_a_file_that_cannot_be_read_is_trouble_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    onnx.save(relu(), tmp_path / "m.onnx")
    monkeypatch.setattr(onnx, "load", refuse)
    with pytest.raises(InfrastructureError, match="Permission denied"):
        load_structure(tmp_path / "m.onnx")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(min_size=1, max_size=200))
def test_any_bytes_are_a_model_or_a_model_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    read_all(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=500)
@given(place=st.integers(0, 400), new=st.binary(min_size=1, max_size=4))
def test_a_model_with_a_few_other_bytes_is_a_model_or_a_model_error(tmp_path: Path, place: int, new: bytes) -> None:
    whole = relu(weights=[external("w", "w.bin")]).SerializeToString()
    at = place % len(whole)
    path = tmp_path / "m.onnx"
    path.write_bytes(whole[:at] + new + whole[at + len(new) :])
    read_all(path)


@pytest.mark.parametrize("text", [b"w.bin", b"xname", b"batch"])
def test_text_that_is_not_utf_8_is_refused_and_not_taken_for_a_name(tmp_path: Path, text: bytes) -> None:
    whole = relu(inputs=[value("xname", ["batch"])], weights=[external("w", "w.bin")]).SerializeToString()
    (tmp_path / "w.bin").write_bytes(b"data")
    path = tmp_path / "m.onnx"
    path.write_bytes(whole.replace(text, b"\x80" + text[1:]))
    structure = load_structure(path)
    with pytest.raises(ModelError, match="is not UTF-8"):
        _ = external_files(structure, tmp_path), read_io(structure)


def read_all(path: Path) -> None:
    """Everything that is asked of a file before a session sees it: nothing but a ModelError may come out."""
    try:
        structure = load_structure(path)
        external_files(structure, path.parent)
        read_io(structure)
        boundary_names(structure)
        opset(structure)
    except ModelError:
        pass


# --- external_files


def test_a_model_in_one_file_has_no_others(tmp_path: Path) -> None:
    assert external_files(relu(weights=[constant("w")]), tmp_path) == ()


def test_external_files_are_found_wherever_a_tensor_can_be_and_named_once(tmp_path: Path) -> None:
    branch = helper.make_graph([], "branch", [], [value("b", [2])], [external("in_branch", "c.bin")])
    nodes = [
        helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch),
        helper.make_node("Constant", [], ["k"], value=external("in_attribute", "b.bin")),
    ]
    made = model(nodes, weights=[external("w1", "d/a.bin"), external("w2", "d/a.bin")])
    made.functions.append(
        helper.make_function(
            "mine", "F", [], ["k"], [helper.make_node("Constant", [], ["k"], value=external("in_function", "e.bin"))],
            [helper.make_opsetid("", 17)],
        )
    )  # fmt: skip
    sparse = made.graph.sparse_initializer.add()
    sparse.values.CopyFrom(external("sparse", "f.bin"))
    (tmp_path / "d").mkdir()
    names = ("b.bin", "c.bin", "d/a.bin", "e.bin", "f.bin")
    for name in names:
        (tmp_path / name).write_bytes(b"data")
    assert external_files(made, tmp_path) == tuple((tmp_path / name).resolve() for name in names)


@pytest.mark.parametrize("location", ["../secret.bin", "d/../../secret.bin", "..", "a\0b"])
def test_external_data_outside_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret.bin").write_bytes(b"secret")
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(ModelError, match="lies outside the model's folder") as caught:
        external_files(relu(weights=[external("w", location)]), folder)
    assert caught.value.remedy == "do not use this model."


def test_an_absolute_path_is_refused_even_to_a_file_that_exists(tmp_path: Path) -> None:
    secret = tmp_path / "secret.bin"
    secret.write_bytes(b"secret")
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(ModelError, match="lies outside"):
        external_files(relu(weights=[external("w", str(secret))]), folder)


def test_a_folder_whose_name_only_begins_alike_is_outside(tmp_path: Path) -> None:
    for name in ("model", "model2"):
        (tmp_path / name).mkdir()
    (tmp_path / "model2" / "w.bin").write_bytes(b"data")
    with pytest.raises(ModelError, match="lies outside"):
        external_files(relu(weights=[external("w", "../model2/w.bin")]), tmp_path / "model")


@pytest.mark.skipif(os.name != "nt", reason="a path on another server is Windows's")
def test_a_server_is_not_asked_about_its_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resolved: list[Path] = []
    real = Path.resolve

    def resolve(self: Path, strict: bool = False) -> Path:
        resolved.append(self)
        return real(self, strict)

    monkeypatch.setattr(Path, "resolve", resolve)
    with pytest.raises(ModelError, match="lies outside"):
        external_files(relu(weights=[external("w", "\\\\server\\share\\w.bin")]), tmp_path)
    assert resolved == [tmp_path]


def test_a_link_that_leads_outside_is_followed_and_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.bin"
    secret.write_bytes(b"secret")
    folder = tmp_path / "model"
    folder.mkdir()
    link = folder / "w.bin"
    try:
        link.symlink_to(secret)
    except OSError as error:
        pytest.skip(f"this system lets nobody make links: {error}")
    if not link.is_file():
        pytest.skip("a link that is made here leads nowhere: Wine")
    with pytest.raises(ModelError, match="lies outside"):
        external_files(relu(weights=[external("w", "w.bin")]), folder)


@pytest.mark.parametrize("location", ["w.bin", "", "."])
def test_external_data_that_is_no_file_is_missing(tmp_path: Path, location: str) -> None:
    with pytest.raises(ModelError, match="is missing from") as caught:
        external_files(relu(weights=[external("w", location)]), tmp_path)
    assert repr(location) in caught.value.message
    assert caught.value.remedy == "put it beside the model."


# --- read_io


def test_inputs_and_outputs_have_name_dtype_and_shape() -> None:
    made = relu(
        inputs=[value("x", [1, "n", None]), value("ids", [2], TensorProto.INT64)],
        outputs=[value("y", [], TensorProto.FLOAT16), value("text", [1], TensorProto.STRING)],
    )
    io = read_io(made)
    assert [(spec.name, spec.dtype, spec.shape) for spec in io.inputs] == [
        ("x", "float32", (1, "n", "unknown_2")),
        ("ids", "int64", (2,)),
    ]
    assert [(spec.name, spec.dtype, spec.shape) for spec in io.outputs] == [
        ("y", "float16", ()),
        ("text", "string", (1,)),
    ]
    assert [spec.is_static for spec in io.inputs] == [False, True]


def test_a_tensor_without_a_shape_is_not_taken_for_a_scalar() -> None:
    io = read_io(relu(inputs=[value("x", None)], outputs=[value("y", None)]))
    assert [spec.shape for spec in (*io.inputs, *io.outputs)] == [None, None]
    assert not io.outputs[0].is_static
    assert read_io(relu(outputs=[value("y", [])])).outputs[0].is_static


def test_a_size_of_zero_is_a_size() -> None:
    assert read_io(relu(inputs=[value("x", [0, 4])])).inputs[0].shape == (0, 4)


def test_weights_that_are_listed_as_inputs_are_not_fed() -> None:
    made = relu(inputs=[value("x", [1]), value("w", [2, 2])], weights=[constant("w")])
    assert [spec.name for spec in read_io(made).inputs] == ["x"]


def test_an_input_that_is_no_tensor_is_refused_by_name() -> None:
    sequence = helper.make_tensor_sequence_value_info("words", TensorProto.FLOAT, None)
    with pytest.raises(ModelError, match="'words' is not a tensor"):
        read_io(relu(inputs=[sequence]))


@pytest.mark.parametrize("element_type", [0, 999])
def test_an_element_type_onnx_does_not_define_is_refused_by_name(element_type: int) -> None:
    with pytest.raises(ModelError, match=f"'x' has the element type {element_type}"):
        read_io(relu(inputs=[value("x", [1], element_type)]))


# --- opset


def test_the_opset_is_that_of_the_default_domain() -> None:
    made = relu(opset=19)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 99))
    assert opset(made) == 19


def test_the_default_domain_has_two_names() -> None:
    made = relu()
    made.opset_import[0].domain = "ai.onnx"
    assert opset(made) == 17


def test_a_file_that_declares_no_opset_has_opset_zero() -> None:
    made = relu()
    del made.opset_import[:]
    assert opset(made) == 0


# --- boundary_names


def quantize(source: str, result: str, name: str) -> onnx.NodeProto:
    return helper.make_node("QuantizeLinear", [source, "scale", "zero"], [result], name=name)


def dequantize(source: str, result: str, name: str) -> onnx.NodeProto:
    return helper.make_node("DequantizeLinear", [source, "scale", "zero"], [result], name=name)


def test_the_boundary_is_q_of_an_input_and_dq_of_an_output() -> None:
    nodes = [
        quantize("x", "xq", "q_in"),
        dequantize("xq", "xf", "dq_inside"),
        helper.make_node("Relu", ["xf"], ["r"], name="relu"),
        quantize("r", "rq", "q_inside"),
        dequantize("rq", "y", "dq_out"),
    ]
    assert boundary_names(model(nodes)) == {"q_in", "dq_out"}


def test_a_dq_of_an_input_and_a_q_of_an_output_are_no_boundary() -> None:
    """A model that takes and gives quantized tensors has nothing to leave to the CPU."""
    nodes = [dequantize("x", "xf", "dq_in"), quantize("xf", "y", "q_out")]
    assert boundary_names(model(nodes)) == frozenset()


def test_only_what_is_quantized_counts_and_not_its_scale() -> None:
    scale = helper.make_node("QuantizeLinear", ["inside", "x", "zero"], ["xq"], name="scaled_by_an_input")
    assert boundary_names(model([scale])) == frozenset()


def test_nodes_without_a_name_cannot_be_told_apart_and_are_left_out() -> None:
    assert boundary_names(model([quantize("x", "xq", ""), dequantize("xq", "y", "")])) == frozenset()


def test_other_nodes_at_the_edge_are_no_boundary() -> None:
    assert boundary_names(relu()) == frozenset()


def test_a_subgraph_has_no_edge_of_the_graph() -> None:
    inside = helper.make_graph([quantize("x", "y", "q_in_branch")], "branch", [], [value("y", [1])])
    node = helper.make_node("If", ["x"], ["z"], name="if", then_branch=inside, else_branch=inside)
    assert boundary_names(model([node])) == frozenset()


@pytest.mark.parametrize("name", ["digits-cnn", "digits-vit"])
def test_a_shipped_model_has_one_input_and_one_output_at_the_boundary(name: str) -> None:
    structure = load_structure(model_path(name, "w8a16"))
    found = boundary_names(structure)
    kinds = sorted(node.op_type for node in structure.graph.node if node.name in found)
    assert kinds == ["DequantizeLinear", "QuantizeLinear"]
