"""What is refused before anything is loaded: these need neither torch nor transformers."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_winml.errors import BuildError, InfrastructureError, ModelError
from pytest_winml.pipeline.export import export
from pytest_winml.pipeline.export.failures import one_line, require, root_cause, told_as
from pytest_winml.pipeline.export.source import Source, find
from pytest_winml.pipeline.export.stage import _Export, _Made
from pytest_winml.records.artifact import TensorSpec
from pytest_winml.records.stages import ExportRequest

if TYPE_CHECKING:
    from pathlib import Path

TEXT = ("input_ids", "attention_mask")
SAFETENSORS, INDEX = "model.safetensors", "model.safetensors.index.json"


def folder_with(path: Path, *names: str, config: object = None) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(
        json.dumps({"model_type": "bert"} if config is None else config), encoding="utf-8"
    )
    for name in names:
        (path / name).write_bytes(b"")
    return path


def request(source: object, **fields: Any) -> ExportRequest:
    pinned = {"task": "fill-mask", "weights": "pretrained", "output_folder": "unused"}
    return ExportRequest(source=str(source), **(pinned | fields))


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return type(self._mark).touch, (self._mark,)


def test_pickled_weights_are_refused_and_not_read(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "model")
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))

    with pytest.raises(ModelError, match=r"(?s)only in pytorch_model\.bin.*safe_serialization=True"):
        export(request(folder))

    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("name", ["model.pt", "tf_model.h5", "flax_model.msgpack", "pytorch_model-00001-of-2.bin"])
def test_every_other_format_of_weights_is_refused_too(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"only in {name}"):
        find(request(folder_with(tmp_path / "model", name)))


def test_safetensors_are_taken_where_pickles_lie_beside_them(tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "model", SAFETENSORS, "pytorch_model.bin")

    assert find(request(folder)).folder == folder


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bert", "auto_map": {"AutoModel": "modeling.Evil"}},
        {"model_type": "clip", "text_config": {"auto_map": {"AutoModel": "modeling.Evil"}}},
    ],
    ids=["top", "nested"],
)
def test_code_that_comes_with_a_model_is_never_run(config: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="brings its own Python code"):
        export(request(folder_with(tmp_path / "model", SAFETENSORS, config=config)))
    with pytest.raises(ModelError, match="brings its own Python code"):
        export(request("just a name", weights="random", config_json=json.dumps(config)))


@pytest.mark.parametrize(
    "shard", ["../other.safetensors", "/other.safetensors", "sub/x.safetensors", "..\\x.safetensors", "model.bin"]
)
def test_an_index_that_points_elsewhere_is_refused(shard: str, tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "model")
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": shard}}), encoding="utf-8")

    with pytest.raises(ModelError, match="not a safetensors file of its folder"):
        find(request(folder))


@pytest.mark.parametrize(
    ("index", "complaint"),
    [
        ({"weight_map": {"a": "model-00001.safetensors"}}, "lacks model-00001.safetensors"),
        ({"weight_map": {}}, "names no weights"),
        ({}, "names no weights"),
        ([], "not a JSON object"),
    ],
)
def test_an_index_that_is_not_one_is_refused(index: object, complaint: str, tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "model")
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")

    with pytest.raises(ModelError, match=complaint):
        find(request(folder))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]"])
def test_a_config_that_is_not_one_is_named(content: bytes, tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "model", SAFETENSORS)
    (folder / "config.json").write_bytes(content)

    with pytest.raises(ModelError, match=r"config\.json"):
        find(request(folder))


def test_a_folder_without_a_config_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no config\.json"):
        find(request(tmp_path))


def test_a_folder_without_weights_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no model\.safetensors"):
        find(request(folder_with(tmp_path / "model")))


def test_weights_quantized_by_somebody_else_are_refused(tmp_path: Path) -> None:
    config = {"model_type": "bert", "quantization_config": {"quant_method": "gptq"}}

    with pytest.raises(ModelError, match="quantized already"):
        find(request(folder_with(tmp_path / "model", SAFETENSORS, config=config)))


def test_a_revision_of_a_local_directory_means_nothing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="local directory, which has no revision 'main'"):
        find(request(folder_with(tmp_path / "model", SAFETENSORS), revision="main"))


def test_an_adapter_is_refused_since_it_would_load_another_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds an adapter"):
        find(request(folder_with(tmp_path / "model", SAFETENSORS, "adapter_config.json")))


def test_a_path_that_does_not_exist_is_not_taken_for_a_hub_id(tmp_path: Path) -> None:
    for source in (tmp_path / "nowhere", "./nowhere", "..\\nowhere"):
        with pytest.raises(ModelError, match="does not exist"):
            find(request(source))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"bert"'])
def test_config_overrides_are_an_object(text: str) -> None:
    with pytest.raises(ModelError, match="config= of 'x'"):
        find(request("x", config_json=text))


def test_random_weights_of_a_pinned_config_need_no_folder() -> None:
    source = find(request("just a name", weights="random", config_json='{"model_type": "bert"}'))

    assert (source.folder, source.model_type) == (None, "bert")


# --- integers


def text_export(monkeypatch: pytest.MonkeyPatch, refused: set[str], *, specs: tuple[str, ...] = ("input_ids",)) -> Any:
    """An export whose tracing refuses some integer types; no model is needed to see what is tried."""

    def inputs(self: object, int_dtype: str) -> tuple[None, tuple[TensorSpec, ...]]:
        return None, tuple(TensorSpec(name=name, dtype=int_dtype, shape=(1, 8)) for name in specs)

    def make(self: object, part: None, specs: tuple[TensorSpec, ...]) -> _Made:
        if specs[0].dtype in refused:
            raise BuildError(f"no {specs[0].dtype} here")
        return _Made(specs, cast("Any", None), {}, {}, {})

    monkeypatch.setattr(_Export, "_inputs", inputs)
    monkeypatch.setattr(_Export, "_make", make)
    export = _Export(request("x"), Source("x", {}), "fill-mask", None, ())
    return export._make_with_smaller_integers(*export._inputs("int32"))


def test_ids_are_int32_where_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    made = text_export(monkeypatch, set())

    assert (made.specs[0].dtype, made.int32_refused) == ("int32", None)


def test_ids_are_int64_with_the_reason_where_int32_does_not_export(monkeypatch: pytest.MonkeyPatch) -> None:
    made = text_export(monkeypatch, {"int32"})

    assert (made.specs[0].dtype, made.int32_refused) == ("int64", "no int32 here")


def test_where_neither_works_the_error_is_that_of_int64(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BuildError, match="no int64 here") as caught:
        text_export(monkeypatch, {"int32", "int64"})

    assert caught.value.__context__ is None


def test_a_text_is_checked_with_half_of_it_masked_too() -> None:
    export = _Export(request("x"), Source("x", {}), "fill-mask", None, ())
    ids, mask = (TensorSpec(name=name, dtype="int32", shape=(1, 6), low=1, high=1) for name in TEXT)

    full, padded = export._feeds((ids, mask))

    assert full["attention_mask"].tolist() == [[1, 1, 1, 1, 1, 1]]
    assert padded["attention_mask"].tolist() == [[1, 1, 1, 0, 0, 0]]
    assert padded["input_ids"] is full["input_ids"]


# --- errors


def test_the_root_cause_is_told_in_one_line() -> None:
    wrapper = KeyError("more advice")
    wrapper.__cause__ = RuntimeError("page 1 of advice\npage 2")
    wrapper.__cause__.__context__ = ValueError("size mismatch:\n  for bias\n  and more")
    with pytest.raises(BuildError) as caught, told_as(BuildError, "it does not export"):
        raise wrapper

    assert caught.value.message == "it does not export: ValueError: size mismatch: for bias"


def test_memory_and_disk_are_no_verdict_about_a_model() -> None:
    import errno

    for trouble in (MemoryError(), OSError(errno.ENOSPC, "No space left"), RuntimeError("not enough memory: 4 GB")):
        with pytest.raises(InfrastructureError), told_as(BuildError, "it does not export"):
            raise trouble


def test_our_own_errors_pass_unchanged() -> None:
    with pytest.raises(ModelError, match=r"^mine$"), told_as(BuildError, "it does not export"):
        raise ModelError("mine")


def test_a_circle_of_causes_ends() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first

    assert root_cause(first) is second


def test_a_long_message_is_cut_and_an_empty_one_is_its_type() -> None:
    assert len(one_line(ValueError("x" * 1000))) == 400
    assert one_line(ValueError()) == "ValueError"


def test_a_missing_package_names_the_extra() -> None:
    with pytest.raises(InfrastructureError, match=r"(?s)no_such_module.*pytest-winml\[cpu,hf\]"):
        require("no_such_module")
