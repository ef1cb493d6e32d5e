"""The layer law of the package, read off its syntax trees: which rules there are, and who breaks them.

A rule is a function from a `Package` to complaints, one line each. test_architecture.py holds the package to them, and
holds each rule to a made-up package that breaks it.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "pytest_winml"
MAX_LINES = 400

LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "units", "version"}),
    frozenset({"records", "contracts"}),
    frozenset({"stats", "accuracy", "graph", "simulator"}),
    frozenset({"providers", "execute", "store", "data", "knowledge", "report"}),
    frozenset({"session"}),
    frozenset({"pipeline", "monitors", "measure", "debug"}),
    frozenset({"runner"}),
    frozenset({"sweep", "onboarding", "review", "doctor", "selftest"}),
    frozenset(
        # pytest and the command line, with the facade objects users hold
        {"plugin", "options", "marks", "fixtures", "hookspecs", "xdist", "cli", "__main__"}
        | {
            "benchmark_bridge",
            "building",
            "cache",
            "collection",
            "compare",
            "facade",
            "keys",
            "latency",
            "outcomes",
            "reporter",
            "run",
        }
        | {"selftest_command", "settings"}
    ),
)
TOP = len(LAYERS) - 1
LAYER_OF = {unit: layer for layer, units in enumerate(LAYERS) for unit in units}

# Third-party modules: what a layer may load when it is imported, and what only when it is called. `google` is protobuf,
# whose errors onnx raises.
_NUMBERS = frozenset({"numpy", "scipy", "onnx", "google"})
_GRAPHS = frozenset({"onnx_ir", "onnxscript"})
_NATIVE = frozenset(
    {"onnxruntime", "onnxruntime_qnn", "onnxruntime_ep_openvino", "openvino", "windowsml"}
    | {"torch", "transformers", "optimum", "huggingface_hub"}
)
_LEAF = _NUMBERS | _GRAPHS | _NATIVE | {"psutil", "filelock", "platformdirs", "fsspec"}
_USE_CASE = _NUMBERS | {"psutil"}
_SERIALISATION = frozenset({"msgspec"})

AT_IMPORT: tuple[frozenset[str], ...] = (
    _SERIALISATION,
    _SERIALISATION,
    _SERIALISATION | _NUMBERS,
    *[_SERIALISATION] * 5,
    _SERIALISATION | {"pytest"},
)
IN_CALLS: tuple[frozenset[str], ...] = (
    frozenset(),
    frozenset(),
    _GRAPHS,
    _LEAF,
    _LEAF,
    _LEAF,
    _USE_CASE,
    _USE_CASE,
    _USE_CASE | {"xdist", "pytest_benchmark"},
)
# A name that only the type checker reads loads nothing: records may say that a function returns an onnx model.
FOR_TYPES = frozenset({"numpy", "onnx"})

When = Literal["import", "call", "typing"]


@dataclass(frozen=True)
class Import:
    importer: str  # dotted module name
    target: str  # dotted module name, resolved as far as the package goes
    line: int
    when: When

    def __str__(self) -> str:
        how = {"import": "", "call": " (in a function)", "typing": " (for types)"}[self.when]
        return f"{self.importer}:{self.line} imports {self.target}{how}"


@dataclass(frozen=True)
class Package:
    name: str
    sources: dict[str, str]  # dotted module name → text
    imports: tuple[Import, ...]

    @classmethod
    def read(cls, folder: Path) -> Package:
        sources = {}
        for path in sorted(folder.rglob("*.py")):
            parts = (folder.name, *path.relative_to(folder).with_suffix("").parts)
            sources[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
        packages = {
            ".".join((folder.name, *path.parent.relative_to(folder).parts)) for path in folder.rglob("__init__.py")
        }
        found = [one for module in sources for one in _imports(module, sources, is_package=module in packages)]
        return cls(folder.name, sources, tuple(found))

    def unit(self, module: str) -> str | None:
        """The package or module right below the root; None for the root, which is the facade."""
        parts = module.split(".")
        return parts[1] if len(parts) > 1 else None

    def own(self, module: str) -> bool:
        return module.split(".", maxsplit=1)[0] == self.name


def _imports(module: str, sources: dict[str, str], *, is_package: bool) -> Iterator[Import]:
    def walk(node: ast.AST, when: When) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                yield from walk(child, "call" if when != "typing" else when)
            elif isinstance(child, ast.If) and _is_type_checking(child.test):
                for inner in child.body:
                    yield from walk(ast.Module([inner], []), "typing")
                for inner in child.orelse:
                    yield from walk(ast.Module([inner], []), when)
            else:
                for target in _targets(child, module, sources, is_package=is_package):
                    yield Import(module, target, getattr(child, "lineno", 0), when)
                yield from walk(child, when)

    yield from walk(ast.parse(sources[module]), "import")


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _targets(node: ast.AST, module: str, sources: dict[str, str], *, is_package: bool) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (name.name for name in names)
        case ast.ImportFrom(module=base, names=names, level=level):
            if level:
                parents = module.split(".")
                kept = parents[: len(parents) - level + is_package]
                base = ".".join([*kept, base] if base else kept)
            for name in names:
                deeper = f"{base}.{name.name}"
                yield deeper if deeper in sources else str(base)
        case ast.Call(func=function, args=[ast.Constant(value=str(target)), *_]):
            if ast.unparse(function) in {"import_module", "importlib.import_module", "__import__"}:
                yield target


# The rules.


def modules_without_a_layer(package: Package) -> Iterator[str]:
    for module in package.sources:
        unit = package.unit(module)
        if unit is not None and unit not in LAYER_OF:
            yield f"{module} is in no layer: give `{unit}` one in tests/architecture.py"


def imports_against_the_layers(package: Package) -> Iterator[str]:
    for one in package.imports:
        if not package.own(one.target):
            continue
        importer, target = package.unit(one.importer), package.unit(one.target)
        if importer is None or importer == target:
            continue  # the facade sees everything; a package sees itself
        if target is None:
            yield f"{one}: the facade is for users, nothing inside imports it"
            continue
        if importer not in LAYER_OF or target not in LAYER_OF:
            continue  # named by another rule
        above, below = LAYER_OF[importer], LAYER_OF[target]
        if below > above:
            yield f"{one}: layer {above} does not know layer {below}"
        elif below == above and above != TOP:
            yield f"{one}: packages of one layer do not know each other"


def import_cycles(package: Package) -> Iterator[str]:
    """At the grain of modules; an import that is lazy, or there for types, still ties two modules together."""
    graph: dict[str, set[str]] = {module: set() for module in package.sources}
    for one in package.imports:
        if one.target in graph:
            graph[one.importer].add(one.target)
    for component in _strongly_connected(graph):
        if len(component) > 1 or component[0] in graph[component[0]]:
            yield f"import cycle: {' -> '.join(_walk_round(component, graph))}"


def _strongly_connected(graph: dict[str, set[str]]) -> list[list[str]]:
    """By reachability, which is quadratic and plain: a package has a hundred modules."""
    reach = {module: _reachable(module, graph) for module in graph}
    components: list[list[str]] = []
    seen: set[str] = set()
    for module in sorted(graph):
        if module not in seen:
            component = sorted({module} | {other for other in reach[module] if module in reach[other]})
            seen |= set(component)
            components.append(component)
    return components


def _reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for target in graph[waiting.pop()] - found:
            found.add(target)
            waiting.append(target)
    return found


def _walk_round(component: list[str], graph: dict[str, set[str]]) -> list[str]:
    """One way round, shortest first found, so that the complaint can be followed by hand."""
    start = component[0]
    paths = [[start]]
    seen = {start}
    while paths:
        path = paths.pop(0)
        for target in sorted(graph[path[-1]] & set(component)):
            if target == start:
                return [*path, start]
            if target not in seen:
                seen.add(target)
                paths.append([*path, target])
    return component


def third_party_imports_outside_the_fence(package: Package) -> Iterator[str]:
    for one in package.imports:
        root = one.target.split(".")[0]
        if package.own(one.target) or root in sys.stdlib_module_names:
            continue
        unit = package.unit(one.importer)
        if unit is None:
            yield f"{one}: the facade is lazy and light"
        elif unit in LAYER_OF:
            layer = LAYER_OF[unit]
            allowed = AT_IMPORT[layer]
            if one.when != "import":
                allowed |= IN_CALLS[layer]
            if one.when == "typing":
                allowed |= FOR_TYPES
            if root not in allowed:
                where = "only inside functions there" if root in IN_CALLS[layer] else "not at all"
                yield f"{one}: layer {layer} may import {root} {where}"


def modules_too_long(package: Package) -> Iterator[str]:
    for module, text in package.sources.items():
        lines = len(text.splitlines())
        if lines > MAX_LINES:
            yield f"{module} has {lines} lines, over {MAX_LINES}"


_ABSOLUTE_PATH = re.compile(
    r"(?<![\w.>)/-])/(?:usr|opt|home|root|tmp|var|etc|mnt|media|srv|Users|Library|Applications)\b(?=[/\"'\s]|$)"
    r"|(?<![A-Za-z0-9])[A-Za-z]:(?:\\\\|\\(?=[A-Z])|/(?!/))"
)


def hard_coded_paths(package: Package, allowed: dict[tuple[str, str], str]) -> Iterator[str]:
    """`allowed`: (module, text of a line) → why that line may name a place. An entry without a line is a complaint."""
    used = set()
    for module, text in package.sources.items():
        for number, line in enumerate(text.splitlines(), 1):
            if _ABSOLUTE_PATH.search(line):
                key = (module, line.strip())
                if key in allowed:
                    used.add(key)
                else:
                    yield f"{module}:{number} names a place of one machine: {line.strip()}"
    for module, line in allowed.keys() - used:
        yield f"no such line any more, strike it off the list of allowed ones: {module}: {line}"
