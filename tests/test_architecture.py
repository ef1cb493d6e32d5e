"""The package keeps the layer law, and each rule of the law is seen to fail on a package that breaks it."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytest_winml
from tests import architecture
from tests.architecture import LAYERS, Package

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEAVY = ("numpy", "onnx", "onnxruntime", "psutil", "scipy", "torch", "transformers")

# (module, text of a line) → why it may name a place. /sys and /proc are the kernel's interface and are not looked for.
ALLOWED_PATHS: dict[tuple[str, str], str] = {}


@cache
def ours() -> Package:
    return Package.read(Path(pytest_winml.__file__).parent)


def complaints(found: Iterator[str]) -> str:
    return "\n".join(found)


def hold(rule: Callable[[Package], Iterator[str]]) -> None:
    if broken := complaints(rule(ours())):
        pytest.fail(broken, pytrace=False)


# The package.


def test_every_module_has_a_layer() -> None:
    hold(architecture.modules_without_a_layer)


def test_imports_go_down_only() -> None:
    hold(architecture.imports_against_the_layers)


def test_no_modules_import_each_other_in_a_circle() -> None:
    hold(architecture.import_cycles)


def test_third_party_modules_stay_behind_the_fence() -> None:
    hold(architecture.third_party_imports_outside_the_fence)


def test_no_module_is_too_long() -> None:
    hold(architecture.modules_too_long)


def test_no_source_names_a_place_of_one_machine() -> None:
    hold(lambda package: architecture.hard_coded_paths(package, ALLOWED_PATHS))


def test_the_reader_saw_the_package() -> None:
    """Rules over nothing would all hold."""
    assert {"pytest_winml", "pytest_winml.errors", "pytest_winml.providers.windowsml"} <= ours().sources.keys()
    assert any(one.target == "pytest_winml.errors" for one in ours().imports)


@pytest.mark.parametrize("module", ["pytest_winml", "pytest_winml.plugin"])
def test_importing_the_entry_point_loads_nothing_heavy(module: str) -> None:
    assert heavy_modules_after(f"import {module}") == []


def test_the_check_for_heavy_modules_can_fail() -> None:
    assert "numpy" in heavy_modules_after("import numpy")


def heavy_modules_after(statement: str) -> list[str]:
    code = (
        f"import json, sys; sys.path[:] = {sys.path!r}\n"
        f"{statement}\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    found: list[str] = json.loads(child.stdout)
    return found


# The rules.


@pytest.fixture
def package(tmp_path: Path) -> Callable[[dict[str, str]], Package]:
    """Writes files, path → text, as a package with our name; every folder on the way becomes a package."""

    def write(files: dict[str, str]) -> Package:
        root = tmp_path / "pytest_winml"
        for name, text in {"__init__.py": "", **files}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            for folder in path.relative_to(root).parents:
                (root / folder / "__init__.py").touch()
            path.write_text(text, encoding="utf-8")
        return Package.read(root)

    return write


def in_function(statement: str) -> str:
    return f"def f():\n    {statement}\n"


def for_types(statement: str) -> str:
    return f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {statement}\n"


@pytest.mark.parametrize("wrap", [str, in_function, for_types], ids=["at import", "in a function", "for types"])
@pytest.mark.parametrize(
    "statement",
    [
        "import pytest_winml.session.opening",
        "from pytest_winml.session import opening",
        "from pytest_winml.session.opening import x",
        "from ..session import opening",
        "from ..session.opening import x",
        "import importlib; importlib.import_module('pytest_winml.session.opening')",
    ],
)
def test_an_import_upwards_is_found_however_it_is_written(
    package: Callable[[dict[str, str]], Package], statement: str, wrap: Callable[[str], str]
) -> None:
    found = complaints(
        architecture.imports_against_the_layers(
            package({"records/model.py": wrap(statement), "session/opening.py": "x = 1"})
        )
    )
    assert "pytest_winml.records.model:" in found
    assert "layer 1 does not know layer 4" in found


@pytest.mark.parametrize("source", ["from . import b", "from .b import x", "from pytest_winml.records import b"])
def test_a_relative_import_is_resolved_from_its_package(
    package: Callable[[dict[str, str]], Package], source: str
) -> None:
    found = package({"records/a.py": source, "records/b.py": "x = 1"})
    assert [one.target for one in found.imports] == ["pytest_winml.records.b"]


def test_a_relative_import_in_an_init_starts_at_its_own_package(
    package: Callable[[dict[str, str]], Package],
) -> None:
    found = package({"records/__init__.py": "from .b import x", "records/b.py": "x = 1"})
    assert [one.target for one in found.imports] == ["pytest_winml.records.b"]


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"store/a.py": "from pytest_winml.report import b", "report/b.py": ""}, "packages of one layer"),
        ({"errors.py": "from pytest_winml import units", "units.py": ""}, "packages of one layer"),
        ({"records/a.py": "from pytest_winml import Model"}, "the facade is for users"),
        ({"records/a.py": "import pytest_winml"}, "the facade is for users"),
        ({"runner.py": "from pytest_winml import cli", "cli.py": ""}, "layer 6 does not know layer 8"),
        # What the law allows:
        ({"store/a.py": "from pytest_winml.store import b", "store/b.py": ""}, None),
        ({"store/a.py": "from pytest_winml.records.b import x", "records/b.py": "x = 1"}, None),
        ({"plugin.py": "from pytest_winml import options", "options.py": ""}, None),
        ({"__init__.py": in_function("from pytest_winml.session import x"), "session/x.py": ""}, None),
    ],
)
def test_the_layer_law(
    package: Callable[[dict[str, str]], Package], files: dict[str, str], complaint: str | None
) -> None:
    found = complaints(architecture.imports_against_the_layers(package(files)))
    assert (complaint in found) if complaint else found == ""


def test_a_module_in_no_layer_is_named(package: Callable[[dict[str, str]], Package]) -> None:
    found = complaints(architecture.modules_without_a_layer(package({"utils/text.py": "", "helpers.py": ""})))
    assert "pytest_winml.utils.text is in no layer" in found
    assert "pytest_winml.helpers is in no layer" in found


def test_no_unit_is_in_two_layers() -> None:
    assert sum(map(len, LAYERS)) == len(architecture.LAYER_OF)


@pytest.mark.parametrize("wrap", [str, in_function, for_types], ids=["at import", "in a function", "for types"])
def test_a_cycle_is_found_and_told_in_the_order_of_its_imports(
    package: Callable[[dict[str, str]], Package], wrap: Callable[[str], str]
) -> None:
    found = package(
        {
            "store/a.py": "from pytest_winml.store import b",
            "store/b.py": "from pytest_winml.store import c",
            "store/c.py": wrap("from pytest_winml.store import a"),
            "store/d.py": "from pytest_winml.store import a",
        }
    )
    names = [f"pytest_winml.store.{letter}" for letter in "abca"]
    assert list(architecture.import_cycles(found)) == [f"import cycle: {' -> '.join(names)}"]


def test_a_chain_is_no_cycle(package: Callable[[dict[str, str]], Package]) -> None:
    chain = {"store/a.py": "from . import b, c", "store/b.py": "from . import c", "store/c.py": ""}
    assert not list(architecture.import_cycles(package(chain)))


@pytest.mark.parametrize(
    ("file", "text", "allowed"),
    [
        ("errors.py", "import msgspec", True),
        ("records/a.py", "import numpy", False),
        ("records/a.py", in_function("import numpy"), False),
        ("records/a.py", for_types("import onnx"), True),
        ("records/a.py", for_types("import torch"), False),
        ("graph/a.py", "import onnx\nfrom google.protobuf.message import DecodeError", True),
        ("graph/a.py", "import onnxscript", False),
        ("graph/a.py", in_function("import onnxscript"), True),
        ("graph/a.py", in_function("import onnxruntime"), False),
        ("providers/a.py", "import onnxruntime", False),
        ("providers/a.py", in_function("import onnxruntime"), True),
        ("providers/a.py", in_function("from windowsml import EpCatalog"), True),
        ("providers/a.py", "import numpy", False),
        ("providers/a.py", "try:\n    import psutil\nexcept ImportError:\n    pass", False),
        ("providers/a.py", "class A:\n    import psutil", False),
        ("providers/a.py", for_types("import numpy"), True),
        ("session/a.py", in_function("import torch"), True),
        ("runner.py", in_function("import torch"), False),
        ("runner.py", in_function("import psutil"), True),
        ("runner.py", "import pytest", False),
        ("doctor/a.py", for_types("import pytest"), False),
        ("doctor/a.py", in_function("import onnxruntime"), False),
        ("plugin.py", "import pytest", True),
        ("plugin.py", "import onnx", False),
        ("plugin.py", in_function("import onnxruntime"), False),
        ("store/a.py", in_function("import requests"), False),
        ("__init__.py", in_function("import numpy"), False),
    ],
)
def test_the_fence(package: Callable[[dict[str, str]], Package], file: str, text: str, allowed: bool) -> None:
    found = list(architecture.third_party_imports_outside_the_fence(package({file: text})))
    assert (found == []) is allowed, found


def test_a_module_of_401_lines_is_too_long_and_one_of_400_is_not(
    package: Callable[[dict[str, str]], Package],
) -> None:
    found = list(architecture.modules_too_long(package({"cli.py": "x = 1\n" * 401, "run.py": "x = 1\n" * 400})))
    assert found == ["pytest_winml.cli has 401 lines, over 400"]


@pytest.mark.parametrize(
    "line",
    [
        'x = "/usr/lib/libQnnHtp.so"',
        'x = "/opt/qcom/aistack"',
        "x = '/home/somebody/models'",
        'x = "/root"',
        'x = "/tmp/store"',
        'x = "C:\\\\Qualcomm\\\\AIStack"',
        'x = r"C:\\Program Files\\QNN"',
        'x = "D:/models"',
        "# copy it from /opt/sdk first",
    ],
)
def test_a_path_of_one_machine_is_found(package: Callable[[dict[str, str]], Package], line: str) -> None:
    found = list(architecture.hard_coded_paths(package({"cli.py": line}), {}))
    assert len(found) == 1
    assert found[0].startswith("pytest_winml.cli:1 ")
    assert not list(architecture.hard_coded_paths(package({"cli.py": line}), {("pytest_winml.cli", line): "a reason"}))


@pytest.mark.parametrize(
    "line",
    [
        'x = "/proc/cpuinfo"',
        'x = "/sys/devices/soc0/machine"',
        'x = "https://example.org/usr/share"',
        'x = "share/usr/data"',
        'x = "Last lines of the log:\\n"',
        "x = a[1:] / b",
        "x: dict = {}",
        'x = f"{value:/}"',
    ],
)
def test_what_is_no_path_of_one_machine_is_left_alone(package: Callable[[dict[str, str]], Package], line: str) -> None:
    assert not list(architecture.hard_coded_paths(package({"cli.py": line}), {}))


def test_an_allowed_path_that_is_gone_is_struck_off(package: Callable[[dict[str, str]], Package]) -> None:
    found = list(architecture.hard_coded_paths(package({}), {("pytest_winml.cli", 'x = "/opt/a"'): "was needed"}))
    assert len(found) == 1
    assert "strike it off" in found[0]
