from __future__ import annotations

import pytest

from pytest_winml.errors import BuildError, UsageProblem
from pytest_winml.pipeline.policy import as_it_applies, policy_for, resolve_precision
from pytest_winml.records.stages import QuantizeRequest
from pytest_winml.records.target import ALL_TARGETS, Target


@pytest.mark.parametrize(
    ("spec", "precision"),
    [
        ("cpu", "fp32"),
        ("qnn:npu", "w8a16"),
        ("qnn:gpu", "fp32"),
        ("openvino:npu", "w8a16"),
        ("openvino:gpu", "fp32"),
        ("openvino:cpu", "fp32"),
        ("vitisai:npu", "ep"),
        ("dml:gpu", "fp32"),
    ],
)
def test_auto_is_the_targets_own_precision(spec: str, precision: str) -> None:
    assert resolve_precision("auto", Target(spec)) == precision


def test_every_target_has_a_policy() -> None:
    assert {spec for spec in ALL_TARGETS if policy_for(Target(spec))} == set(ALL_TARGETS)


def test_only_eps_with_epcontext_are_compiled_for() -> None:
    compiled = {spec.partition(":")[0] for spec in ALL_TARGETS if policy_for(Target(spec)).has_ep_context}
    assert compiled == {"qnn", "openvino", "vitisai"}


def test_qnn_targets_are_prepared_and_quantized_the_qnn_way() -> None:
    qnn = [spec for spec in ALL_TARGETS if policy_for(Target(spec)).family == "qnn"]
    assert qnn == ["qnn:npu", "qnn:gpu"] == [spec for spec in ALL_TARGETS if policy_for(Target(spec)).preparation]


@pytest.mark.parametrize("precision", ["w8a8", "w8a16"])
def test_qdq_on_the_qnn_gpu_is_refused_with_the_reason(precision: str) -> None:
    with pytest.raises(
        BuildError, match=f"precision {precision} cannot be used on qnn:gpu: QNN's GPU backend"
    ) as caught:
        resolve_precision(precision, Target("qnn:gpu"))
    assert "fp16" in str(caught.value.remedy)
    assert "w8a8" not in str(caught.value.remedy)


def test_what_is_asked_for_wins_over_the_policy() -> None:
    assert resolve_precision("w8a16", Target("vitisai:npu")) == "w8a16"
    assert resolve_precision("fp32", Target("qnn:npu")) == "fp32"
    assert resolve_precision("fp16", Target("qnn:gpu")) == "fp16"


def test_a_precision_nobody_knows_gets_the_nearest() -> None:
    with pytest.raises(UsageProblem, match="did you mean 'w8a16'"):
        resolve_precision("w8a61", Target("cpu"))


def test_a_bare_device_has_no_policy_before_it_is_resolved() -> None:
    with pytest.raises(UsageProblem, match="'npu' must be resolved to an EP") as caught:
        policy_for(Target("npu"))
    assert "qnn:npu, openvino:npu, vitisai:npu" in str(caught.value.remedy)


@pytest.mark.parametrize("precision", ["fp16", "dynamic"])
def test_families_share_what_is_built_the_same_way_for_all(precision: str) -> None:
    def asked(family: str) -> QuantizeRequest:
        return QuantizeRequest(
            model_path="m.onnx",
            precision=precision,  # type: ignore[arg-type]
            family=family,  # type: ignore[arg-type]
            method="entropy",
            per_channel=True,
            exclude_nodes=("head",),
            output_folder="out",
        )

    applies = as_it_applies(asked("qnn"))
    assert applies == as_it_applies(asked("generic"))
    assert applies.exclude_nodes == ("head",)
    assert applies.per_channel is (precision == "dynamic")


def test_a_calibrated_precision_looks_at_everything() -> None:
    request = QuantizeRequest(
        model_path="m.onnx", precision="w8a16", family="qnn", method="entropy", per_channel=True, output_folder="out"
    )
    assert as_it_applies(request) == request
