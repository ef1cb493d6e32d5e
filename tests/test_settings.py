from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_winml.errors import UsageProblem
from pytest_winml.providers.binding import EMULATE_WORDS
from pytest_winml.records.target import Target
from pytest_winml.settings import Settings

ROOT = Path("rootdir").absolute()


def parse(**given: Any) -> Settings:
    plain: dict[str, Any] = {
        "rootdir": ROOT, "targets": (), "models": (), "require": (), "emulate": "auto", "ep_libraries": (),
        "offline": False, "timeout_s": "600", "report_dir": "reports",
    }  # fmt: skip
    return Settings.parse(**{**plain, **given})


def refusal(**given: Any) -> UsageProblem:
    with pytest.raises(UsageProblem) as caught:
        parse(**given)
    return caught.value


def test_defaults_choose_nothing() -> None:
    settings = parse()
    assert (settings.targets, settings.models, settings.require, settings.ep_libraries) == ((), (), (), {})
    assert (settings.emulate, settings.timeout_s) == ("auto", 600.0)


@pytest.mark.parametrize("option", ["targets", "require"])
def test_targets_are_put_into_their_one_form(option: str) -> None:
    settings = parse(**{option: ["QNNExecutionProvider:NPU", "dml", "npu"]})
    assert getattr(settings, option) == ("qnn:npu", "dml:gpu", "npu")


@pytest.mark.parametrize("option", ["targets", "require"])
def test_an_unknown_target_suggests_the_nearest(option: str) -> None:
    assert refusal(**{option: ["qnn:npx"]}).remedy == "did you mean 'qnn:npu'?"


@pytest.mark.parametrize("word", EMULATE_WORDS)
def test_every_word_about_emulation_is_accepted(word: str) -> None:
    assert parse(emulate=word).emulate == word


@pytest.mark.parametrize("word", ["nevr", "AUTO", "", "yes"])
def test_another_word_about_emulation_is_refused(word: str) -> None:
    problem = refusal(emulate=word)
    assert problem.message == f"unknown --winml-emulate {word!r}"
    near = {"nevr": "did you mean 'never'?", "AUTO": "did you mean 'auto'?"}
    assert problem.remedy == near.get(word, "known: auto, never, only.")


@pytest.mark.parametrize(("text", "value"), [("600", 600.0), ("0.5", 0.5), ("1e3", 1000.0), (" 5 ", 5.0)])
def test_a_timeout_is_a_number_of_seconds(text: str, value: float) -> None:
    assert parse(timeout_s=text).timeout_s == value


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "-inf", "1e999", "soon", "", "10s", "-0.0"])
def test_a_timeout_that_never_or_always_ends_is_refused(text: str) -> None:
    assert refusal(timeout_s=text).message == f"--winml-timeout {text!r} is not a number of seconds above 0"


@pytest.mark.parametrize(
    ("text", "ep", "path"),
    [
        ("qnn=libs/qnn.so", "qnn", ROOT / "libs" / "qnn.so"),
        (" QNN =libs/qnn.so", "qnn", ROOT / "libs" / "qnn.so"),
        ("openvino=a=b.so", "openvino", ROOT / "a=b.so"),
        (f"qnn={ROOT / 'elsewhere' / 'qnn.so'}", "qnn", ROOT / "elsewhere" / "qnn.so"),
    ],
)
def test_a_library_is_an_ep_and_a_path_that_starts_at_the_rootdir(text: str, ep: str, path: Path) -> None:
    assert parse(ep_libraries=[text]).ep_libraries == {ep: str(path)}


@pytest.mark.parametrize("text", ["qnn", "qnn=", "", "/folder/qnn.so"])
def test_a_library_without_its_ep_or_its_path_is_refused_with_the_form(text: str) -> None:
    problem = refusal(ep_libraries=[text])
    assert problem.message == f"--winml-ep-library {text!r} is not EP=PATH"
    assert problem.remedy == "write qnn=/folder/library."


@pytest.mark.parametrize("ep", ["qmn", "cpu", "", "cuda"])
def test_a_library_of_an_unknown_ep_or_of_the_cpu_is_refused(ep: str) -> None:
    problem = refusal(ep_libraries=[f"{ep}=/folder/library"])
    assert problem.message == f"unknown EP in --winml-ep-library {ep!r}"
    assert "cpu" not in str(problem.remedy)


def test_an_ep_that_is_misspelt_suggests_the_nearest() -> None:
    assert refusal(ep_libraries=["qmn=/folder/library"]).remedy == "did you mean 'qnn'?"


def test_reports_go_below_the_rootdir_unless_the_path_is_absolute(tmp_path: Path) -> None:
    assert parse(report_dir="out").report_dir == ROOT / "out"
    assert parse(report_dir=str(tmp_path)).report_dir == tmp_path


@pytest.mark.parametrize(
    ("required", "target", "expected"),
    [
        ("qnn:npu", "qnn:npu", True),
        ("qnn:npu", "openvino:npu", False),
        ("qnn:npu", "qnn:gpu", False),
        ("npu", "qnn:npu", True),
        ("npu", "openvino:npu", True),
        ("npu", "npu", True),
        ("npu", "qnn:gpu", False),
        ("cpu", "cpu", True),
        ("cpu", "qnn:npu", False),
    ],
)
def test_a_target_is_required_or_selected_by_its_name_or_its_device(required: str, target: str, expected: bool) -> None:
    assert parse(require=[required]).requires(Target(target)) is expected
    assert parse(targets=[required]).selects("any", Target(target)) is expected


def test_a_soc_or_options_do_not_hide_a_target_from_its_name() -> None:
    target = Target("qnn:npu", soc="sm8750", options={"vtcm_mb": "8"}, name="elite")
    assert parse(require=["qnn:npu"]).requires(target)
    assert parse(targets=["qnn:npu"]).selects("any", target)


def test_nothing_is_required_and_everything_selected_unless_something_is_said() -> None:
    assert not parse().requires(Target("qnn:npu"))
    assert parse().selects("any", Target("qnn:npu"))


def test_a_case_is_selected_by_its_target_and_its_model_together() -> None:
    settings = parse(targets=["npu", "cpu"], models=["digits-cnn"])
    assert settings.selects("digits-cnn", Target("cpu"))
    assert settings.selects("digits-cnn", Target("qnn:npu"))
    assert not settings.selects("digits-vit", Target("cpu"))
    assert not settings.selects("digits-cnn", Target("dml:gpu"))
    assert not settings.selects("digits", Target("cpu")), "a name is the whole name"


def test_the_summary_is_json_and_holds_no_path_of_this_machine(tmp_path: Path) -> None:
    settings = parse(ep_libraries=[f"qnn={tmp_path / 'qnn.so'}"], report_dir=str(tmp_path), targets=["npu"])
    text = msgspec.json.encode(settings.summary()).decode()
    expected = {
        "target": ["npu"], "model": [], "require": [], "emulate": "auto", "ep_library": ["qnn"], "offline": False,
        "timeout_s": 600.0,
    }  # fmt: skip
    assert msgspec.json.decode(text).items() >= expected.items()
    assert tmp_path.name not in text
    assert ROOT.name not in text
