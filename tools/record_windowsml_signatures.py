"""Record the signatures of the part of `windowsml` that pytest-winml calls, from a wheel, without importing it.

    pip download windowsml --no-deps --only-binary :all: --platform win_amd64 --python-version 3.13 -d wheels
    python tools/record_windowsml_signatures.py wheels/windowsml-*.whl

The wheel is for Windows; its Python sources are read with `ast`. The record (tests/providers/windowsml_signatures.json)
is what the tests' fake has to look like, on every system.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

RECORD = Path(__file__).resolve().parent.parent / "tests" / "providers" / "windowsml_signatures.json"

# Enums are recorded with all their members.
USED: dict[str, tuple[str, ...]] = {
    "EpCatalog": ("__init__", "find_all_providers", "close"),
    "ExecutionProvider": (
        "name",
        "version",
        "package_family_name",
        "library_path",
        "ready_state",
        "ensure_ready_async",
    ),
    "AsyncOperation": ("wait", "cancel", "close"),
    "EpReadyState": (),
}

Signatures = dict[str, dict[str, Any]]


def signatures_of_sources(sources: Iterable[str]) -> Signatures:
    """Class → {"methods": {name: parameters}, "properties": [...]} or {"members": {...}}; raises for a missing name."""
    classes = {
        node.name: node
        for source in sources
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name in USED
    }
    if missing := sorted(USED.keys() - classes.keys()):
        raise LookupError(f"windowsml has no class {', '.join(missing)}")
    return {name: _class(classes[name], names) for name, names in USED.items()}


def _class(node: ast.ClassDef, names: tuple[str, ...]) -> dict[str, Any]:
    if not names:
        return {"members": dict(_members(node))}
    functions = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    if missing := sorted(set(names) - functions.keys()):
        raise LookupError(f"windowsml.{node.name} has no {', '.join(missing)}")
    is_property = {
        name: any(isinstance(d, ast.Name) and d.id == "property" for d in functions[name].decorator_list)
        for name in names
    }
    return {
        "methods": {name: list(_parameters(functions[name].args)) for name in names if not is_property[name]},
        "properties": [name for name in names if is_property[name]],
    }


def _members(node: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    for item in node.body:
        if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            yield item.targets[0].id, ast.literal_eval(item.value)


def _parameters(args: ast.arguments) -> Iterator[dict[str, Any]]:
    """The kinds are spelled as `inspect` names them."""
    positional = [*args.posonlyargs, *args.args]
    first_default = len(positional) - len(args.defaults)
    for index, argument in enumerate(positional):
        kind = "POSITIONAL_ONLY" if index < len(args.posonlyargs) else "POSITIONAL_OR_KEYWORD"
        yield {"name": argument.arg, "kind": kind, "optional": index >= first_default}
    if args.vararg:
        yield {"name": args.vararg.arg, "kind": "VAR_POSITIONAL", "optional": False}
    for argument, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield {"name": argument.arg, "kind": "KEYWORD_ONLY", "optional": default is not None}
    if args.kwarg:
        yield {"name": args.kwarg.arg, "kind": "VAR_KEYWORD", "optional": False}


def record_of_wheel(wheel: Path) -> dict[str, Any]:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        # A wheel with a DLL may keep its Python files under NAME.data/purelib.
        sources = [name for name in names if re.fullmatch(r"(.+\.data/(pure|plat)lib/)?windowsml/\w+\.py", name)]
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        version = Parser().parsestr(archive.read(metadata).decode("utf-8"), headersonly=True)["Version"]
        classes = signatures_of_sources(archive.read(name).decode("utf-8") for name in sources)
    return {"distribution": "windowsml", "version": version, "classes": classes}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Record windowsml's signatures for the tests' fake.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--output", type=Path, default=RECORD)
    options = parser.parse_args(arguments)
    text = json.dumps(record_of_wheel(options.wheel), indent=2) + "\n"
    options.output.write_text(text, encoding="utf-8", newline="\n")
    print(f"wrote {options.output.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
