from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from pytest_winml.providers.distributions import RUNTIME_NAMES, Distribution, RuntimeInstall, runtime_install

if TYPE_CHECKING:
    from pathlib import Path

RUNTIME = ("onnxruntime/__init__.py", "onnxruntime/capi/_pybind_state.py")
QNN_PLUGIN = ("onnxruntime_qnn/__init__.py", "onnxruntime_qnn/libs/amd64/onnxruntime_providers_qnn.dll")


def install(folder: Path, name: str, version: str, files: tuple[str, ...] = RUNTIME) -> Path:
    """What pip leaves behind: the files, and a dist-info folder whose name is the normalised name."""
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    record = [f"{file},sha256=xyz,1" for file in files] + [f"{info.name}/RECORD,,"]
    (info / "RECORD").write_text("\n".join(record), encoding="utf-8")
    return info


def found(*folders: Path) -> RuntimeInstall:
    return runtime_install([str(folder) for folder in folders])


def test_one_runtime_is_healthy(tmp_path: Path) -> None:
    install(tmp_path, "onnxruntime-windowsml", "1.30.0.1")
    install(tmp_path, "numpy", "2.4.0", ("numpy/__init__.py",))
    result = found(tmp_path)
    assert result.distributions == (Distribution("onnxruntime-windowsml", "1.30.0.1"),)
    assert result.problem is None
    assert result.remedy is None


def test_without_a_runtime_one_line_says_which_extra_to_take(tmp_path: Path) -> None:
    result = found(tmp_path)
    assert result.distributions == ()
    assert result.problem == "no ONNX Runtime is installed"
    assert result.remedy is not None
    assert "\n" not in result.remedy
    for extra in ("qnn", "windowsml", "cpu", "openvino", "openvino-classic"):
        assert extra in result.remedy


def test_two_runtimes_are_named_with_the_commands_that_repair_it(tmp_path: Path) -> None:
    install(tmp_path, "onnxruntime-windowsml", "1.30.0.1")
    install(tmp_path, "onnxruntime", "1.31.1")
    result = found(tmp_path)
    assert result.problem == (
        "2 distributions install the same module onnxruntime: onnxruntime 1.31.1, onnxruntime-windowsml 1.30.0.1"
    )
    assert result.remedy is not None
    assert result.remedy.splitlines()[1:] == [
        "  python -m pip uninstall -y onnxruntime onnxruntime-windowsml",
        "  python -m pip install --force-reinstall --no-deps onnxruntime==1.31.1",
        "or",
        "  python -m pip install --force-reinstall --no-deps onnxruntime-windowsml==1.30.0.1",
    ]


@pytest.mark.parametrize("name", RUNTIME_NAMES)
def test_every_known_name_is_found_beside_the_plain_runtime(tmp_path: Path, name: str) -> None:
    install(tmp_path, name, "1.0")
    assert found(tmp_path).distributions == (Distribution(name, "1.0"),)


def test_the_qnn_plugin_is_no_runtime_and_the_old_qnn_build_is_one(tmp_path: Path) -> None:
    plugin, build = tmp_path / "plugin", tmp_path / "build"
    install(plugin, "onnxruntime", "1.31.1")
    install(plugin, "onnxruntime-qnn", "2.7.0", QNN_PLUGIN)
    install(build, "onnxruntime", "1.22.0")
    install(build, "onnxruntime-qnn", "1.22.0")
    assert found(plugin).problem is None
    assert [one.name for one in found(build).distributions] == ["onnxruntime", "onnxruntime-qnn"]
    assert found(build).problem is not None


def test_a_runtime_whose_files_another_uninstall_took_is_broken_and_gets_a_forced_reinstall(tmp_path: Path) -> None:
    install(tmp_path, "onnxruntime", "1.31.1")
    (tmp_path / "onnxruntime" / "__init__.py").unlink()
    result = found(tmp_path)
    assert result.distributions == (Distribution("onnxruntime", "1.31.1", intact=False),)
    assert result.problem is not None
    assert "files are gone" in result.problem
    assert result.remedy == "python -m pip install --force-reinstall --no-deps onnxruntime==1.31.1"


def test_the_same_runtime_in_a_later_folder_is_shadowed_and_no_problem(tmp_path: Path) -> None:
    first, later = tmp_path / "venv", tmp_path / "user"
    install(first, "onnxruntime", "1.31.1")
    install(later, "onnxruntime", "1.20.0")
    result = found(first, later)
    assert result.distributions == (Distribution("onnxruntime", "1.31.1"),)
    assert result.shadowed == (Distribution("onnxruntime", "1.20.0"),)
    assert result.problem is None


def test_another_runtime_in_a_later_folder_is_a_problem(tmp_path: Path) -> None:
    first, later = tmp_path / "venv", tmp_path / "user"
    install(first, "onnxruntime", "1.31.1")
    install(later, "onnxruntime-gpu", "1.20.0")
    assert found(first, later).problem is not None


def test_a_folder_named_twice_on_the_path_counts_once(tmp_path: Path) -> None:
    install(tmp_path, "onnxruntime", "1.31.1")
    result = found(tmp_path, tmp_path / "onnxruntime" / "..", tmp_path / "missing")
    assert result == RuntimeInstall(distributions=(Distribution("onnxruntime", "1.31.1"),))


def test_two_records_of_one_runtime_in_one_folder_are_an_upgrade_cut_short(tmp_path: Path) -> None:
    install(tmp_path, "onnxruntime", "1.30.0")
    install(tmp_path, "onnxruntime", "1.31.1")
    result = found(tmp_path)
    assert {one.version for one in result.distributions} == {"1.30.0", "1.31.1"}
    assert result.problem is not None
    assert "upgrade cut short" in result.problem
    assert result.remedy is not None
    assert "uninstall -y onnxruntime\n" in result.remedy, "the name once"


def test_records_with_windows_separators_or_quotes_are_read(tmp_path: Path) -> None:
    info = install(tmp_path, "onnxruntime", "1.31.1")
    (info / "RECORD").write_text('"onnxruntime\\__init__.py",sha256=x,1\n', encoding="utf-8")
    assert found(tmp_path).problem is None


def test_without_a_list_of_files_the_name_is_believed_unless_it_has_two_meanings(tmp_path: Path) -> None:
    for name in ("onnxruntime", "onnxruntime-qnn"):
        (install(tmp_path, name, "1.0") / "RECORD").unlink()
    assert found(tmp_path).distributions == (Distribution("onnxruntime", "1.0"),)


def test_a_record_without_metadata_has_an_unknown_version_and_is_not_pinned_to_it(tmp_path: Path) -> None:
    (install(tmp_path, "onnxruntime", "1.0") / "METADATA").unlink()
    (tmp_path / "onnxruntime" / "__init__.py").unlink()
    result = found(tmp_path)
    assert [str(one) for one in result.distributions] == ["onnxruntime (unknown version)"]
    assert result.remedy == "python -m pip install --force-reinstall --no-deps onnxruntime"


def test_this_environment_is_read_as_importlib_metadata_reads_it() -> None:
    result = runtime_install()
    for one in result.distributions:
        assert metadata.version(one.name) == one.version


def test_looking_imports_neither_the_runtime_nor_numpy() -> None:
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        "from pytest_winml.providers.distributions import runtime_install\n"
        "runtime_install()\n"
        "sys.exit(str(sorted({'onnxruntime', 'numpy', 'onnx', 'torch'} & sys.modules.keys()) or ''))\n"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.stderr.strip() == ""
