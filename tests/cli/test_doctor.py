"""`pytest-winml doctor`: what is here, what is broken, and the exit status scripts rely on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_winml.cli import main
from pytest_winml.records.target import ALL_TARGETS
from tests.platforms import needs_qnn, needs_runtime

if TYPE_CHECKING:
    from pathlib import Path


@needs_runtime
def test_every_target_gets_a_verdict_and_a_healthy_machine_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "--offline"]) == 0
    findings = {finding["target"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert tuple(findings) == ALL_TARGETS
    assert findings["cpu"]["verdict"] == "native"
    assert "ran digits-cnn" in findings["cpu"]["proof"]
    assert all(finding["reason"] for finding in findings.values() if finding["verdict"] == "build-only")


@needs_qnn
def test_the_emulator_is_tried_with_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--offline"]) == 0
    output = capsys.readouterr().out
    assert "qnn:npu       emulated    ran digits-cnn, 58 of 60 nodes on the target" in output
    assert "Healthy" in output


@needs_qnn
def test_a_broken_ep_is_named_and_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = tmp_path / "ep.so"
    library.write_bytes(b"nonsense")
    assert main(["doctor", "--offline", "--ep-library", f"qnn={library}"]) == 1
    assert "BROKEN: qnn:npu, qnn:gpu." in capsys.readouterr().out


@needs_qnn
def test_a_library_that_is_not_there_asks_for_another_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--offline", "--json", f"--ep-library=qnn={tmp_path / 'gone.so'}"]) == 1
    findings = {one["target"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert findings["qnn:npu"]["remedy"] == "give the path of a library that is there."


def test_two_runtimes_are_named_with_the_command_that_repairs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, version in (("onnxruntime", "1.31.1"), ("onnxruntime-windowsml", "1.30.0")):
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (folder / "RECORD").write_text("onnxruntime/__init__.py,,\n")
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["doctor"]) == 1
    output = capsys.readouterr().out
    assert "onnxruntime-windowsml 1.30.0" in output
    assert "pip uninstall -y" in output


@pytest.mark.parametrize(
    "arguments", [["doctr"], ["doctor", "--ep-library", "x"], ["doctor", "--timeout", "never"], []]
)
def test_a_mistake_in_the_command_exits_4(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: object = main(arguments)
    except SystemExit as stopped:
        status = stopped.code
    assert status == 4
    said = capsys.readouterr().err
    assert said
    assert "--winml-" not in said, "options are those of this command"


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["doctor", "--help"])
    assert stopped.value.code == 0
    assert "pytest-winml doctor --json" in capsys.readouterr().out
