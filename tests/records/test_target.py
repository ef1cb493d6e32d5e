from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.errors import UsageProblem
from pytest_winml.records.target import (
    ALL_TARGETS,
    DEFAULT_SOC,
    EP_BY_NAME,
    EXECUTION_PROVIDERS,
    PREFERENCE,
    SOCS,
    Target,
    as_target,
    canonical_spec,
)

HEADS = sorted({*EP_BY_NAME, *(ep.provider for ep in EXECUTION_PROVIDERS), "directml", "vitis", "ov", "npu", "gpu"})
TAILS = ("", ":cpu", ":gpu", ":npu", ":", ":tpu")


def refusal(text: Any) -> UsageProblem:
    with pytest.raises(UsageProblem) as caught:
        canonical_spec(text)
    return caught.value


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("cpu", "cpu"),
        ("CPUExecutionProvider", "cpu"),
        ("cpu:cpu", "cpu"),
        ("qnn:npu", "qnn:npu"),
        ("QNN:GPU", "qnn:gpu"),
        ("QNNExecutionProvider:NPU", "qnn:npu"),
        ("  qnn:npu ", "qnn:npu"),
        ("ov:npu", "openvino:npu"),
        ("OpenVINOExecutionProvider:cpu", "openvino:cpu"),
        ("dml", "dml:gpu"),
        ("DirectML:gpu", "dml:gpu"),
        ("DmlExecutionProvider", "dml:gpu"),
        ("vitis", "vitisai:npu"),
        ("VitisAIExecutionProvider:npu", "vitisai:npu"),
        ("NPU", "npu"),
        ("gpu", "gpu"),
    ],
)
def test_aliases_provider_names_and_any_case_are_understood(written: str, meant: str) -> None:
    assert canonical_spec(written) == meant
    assert Target(written) == Target(meant)


@pytest.mark.parametrize("spec", [*ALL_TARGETS, *PREFERENCE])
def test_every_target_we_name_is_already_canonical(spec: str) -> None:
    assert canonical_spec(spec) == spec


@given(head=st.sampled_from(HEADS), tail=st.sampled_from(TAILS), upper=st.booleans(), space=st.sampled_from(["", " "]))
def test_what_canonicalising_accepts_it_leaves_alone_the_second_time(
    head: str, tail: str, upper: bool, space: str
) -> None:
    text = f"{space}{head}{tail}{space}"
    try:
        once = canonical_spec(text.upper() if upper else text)
    except UsageProblem:
        return
    assert once in (*ALL_TARGETS, *PREFERENCE)
    assert canonical_spec(once) == once


@given(st.text())
def test_any_text_is_a_target_or_a_usage_problem(text: str) -> None:
    try:
        once = canonical_spec(text)
    except UsageProblem:
        return
    assert canonical_spec(once) == once


def test_an_ep_with_several_devices_is_not_guessed_and_names_its_choices() -> None:
    problem = refusal("qnn")
    assert problem.message == "target 'qnn' names no device"
    assert problem.remedy == "write qnn:npu or qnn:gpu."


@pytest.mark.parametrize(
    ("typo", "nearest"), [("qnn:npx", "qnn:npu"), ("qnm:npu", "qnn:npu"), ("opnvino:gpu", "openvino:gpu")]
)
def test_an_unknown_target_suggests_the_nearest(typo: str, nearest: str) -> None:
    problem = refusal(typo)
    assert problem.message == f"unknown target {typo!r}"
    assert problem.remedy == f"did you mean {nearest!r}?"


@pytest.mark.parametrize("text", ["", ":", "npu:", "cpu:npu", "dml:npu", "zzz"])
def test_a_device_the_ep_cannot_drive_and_plain_nonsense_are_refused(text: str) -> None:
    assert "unknown target" in refusal(text).message


@pytest.mark.parametrize("value", [None, 3, ["qnn:npu"]])
def test_something_that_is_no_text_is_refused_by_its_type(value: Any) -> None:
    assert type(value).__name__ in refusal(value).message


def test_ep_device_and_provider_are_read_off_the_spec() -> None:
    target = Target("openvino:gpu")
    assert (target.ep, target.device, target.provider) == ("openvino", "gpu", "OpenVINOExecutionProvider")
    assert (Target("cpu").ep, Target("cpu").device) == ("cpu", "cpu")


@pytest.mark.parametrize("device", ["npu", "gpu"])
def test_a_bare_device_has_no_ep_until_it_is_resolved(device: str) -> None:
    target = Target(device, options={"device_id": "0"})
    assert (target.ep, target.provider, target.device) == (None, None, device)
    resolved = target.resolved_to(PREFERENCE[device][0])
    assert (resolved.spec, resolved.options) == (PREFERENCE[device][0], {"device_id": "0"})
    assert target.spec == device, "the original stays as it was written"


@pytest.mark.parametrize("device", sorted(PREFERENCE))
def test_a_bare_device_only_ever_means_eps_that_drive_it_and_never_the_cpu(device: str) -> None:
    for spec in PREFERENCE[device]:
        assert Target(spec).device == device
        assert Target(spec).ep != "cpu"


def test_a_soc_is_known_by_its_name_in_any_case() -> None:
    assert Target("qnn:npu", soc="SM8750").soc == "sm8750"


def test_an_unknown_soc_suggests_the_nearest() -> None:
    with pytest.raises(UsageProblem, match="unknown SoC 'sc8380xq'") as caught:
        Target("qnn:npu", soc="sc8380xq")
    assert caught.value.remedy == "did you mean 'sc8380xp'?"


@pytest.mark.parametrize("spec", ["cpu", "openvino:npu", "npu"])
def test_only_qnn_has_a_soc(spec: str) -> None:
    with pytest.raises(UsageProblem, match="takes no soc="):
        Target(spec, soc=DEFAULT_SOC)


def test_soc_names_and_numbers_are_unique_and_the_default_is_one_of_them() -> None:
    assert len({soc.name for soc in SOCS}) == len({soc.soc_model for soc in SOCS}) == len(SOCS)
    assert DEFAULT_SOC in {soc.name for soc in SOCS}


@pytest.mark.parametrize("field", ["options", "unchecked_options"])
def test_option_values_are_text_and_the_remedy_writes_it(field: str) -> None:
    given: dict[str, Any] = {field: {"vtcm_mb": 8}}
    with pytest.raises(UsageProblem, match="option 'vtcm_mb' must be text") as caught:
        Target("qnn:npu", **given)
    assert caught.value.remedy == "write '8'."


def test_an_option_cannot_be_both_checked_and_unchecked() -> None:
    with pytest.raises(UsageProblem, match="'vtcm_mb' is given checked and unchecked"):
        Target("qnn:npu", options={"vtcm_mb": "8"}, unchecked_options={"vtcm_mb": "4"})


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        (Target("qnn:npu"), "qnn:npu"),
        (Target("qnn:npu", soc=DEFAULT_SOC), "qnn:npu"),
        (Target("qnn:npu", soc="sm8750"), "qnn:npu@sm8750"),
        (Target("qnn:npu", options={"vtcm_mb": "8", "device_id": "0"}), "qnn:npu@device_id=0+vtcm_mb=8"),
        (Target("qnn:npu", soc="sm8750", unchecked_options={"new": "1"}), "qnn:npu@sm8750+new=1"),
        (Target("qnn:npu", soc="sm8750", name="elite"), "elite"),
        (Target("npu"), "npu"),
    ],
)
def test_an_id_shows_what_makes_a_target_unlike_the_plain_one(target: Target, shown: str) -> None:
    assert target.id == shown


def test_a_string_and_a_target_are_both_accepted_where_a_target_is_meant() -> None:
    made = Target("qnn:npu", soc="sm8750")
    assert as_target(made) is made
    assert as_target("QNN:npu") == Target("qnn:npu")


def test_a_target_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Target("cpu").spec = "npu"  # type: ignore[misc]


def test_reading_back_checks_again() -> None:
    with pytest.raises(UsageProblem, match="unknown target"):
        msgspec.json.decode(b'{"spec": "abacus"}', type=Target)
