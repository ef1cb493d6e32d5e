"""Command-line options and ini settings, parsed once into one frozen value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from pytest_winml.settings import Settings

# name, ini type, and what argparse needs. The dest of an option and the name of its ini setting are the same word.
_OPTIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("target", "args", {"action": "append", "metavar": "T", "help": "run only cases of this target (repeatable)"}),
    ("model", "args", {"action": "append", "metavar": "NAME", "help": "run only cases of this model (repeatable)"}),
    (
        "require",
        "args",
        {"action": "append", "metavar": "T", "help": "a skip of this target is a failure (repeatable)"},
    ),
    ("emulate", "string", {"choices": ("auto", "never", "only"), "help": "may NPU items run on an emulator? (auto)"}),
    ("ep-library", "args", {"action": "append", "metavar": "EP=PATH", "help": "load an EP from this library"}),
    ("store", "string", {"metavar": "DIR", "help": "where built artifacts are kept (the user's cache folder)"}),
    ("build-only", "bool", {"action": "store_true", "default": None, "help": "build for every target, run nothing"}),
    ("offline", "bool", {"action": "store_true", "default": None, "help": "never touch the network"}),
    ("timeout", "string", {"metavar": "S", "help": "seconds one call into native code may take (600)"}),
    ("report-dir", "string", {"metavar": "DIR", "help": "where reports go (reports)"}),
)


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("winml", "ONNX models on Windows ML execution providers")
    for name, ini_type, details in _OPTIONS:
        dest = ini_name(name)
        group.addoption(f"--winml-{name}", dest=dest, **{"default": None, **details})
        parser.addini(dest, f"default of --winml-{name}", type=ini_type, default=None)  # type: ignore[arg-type]


def ini_name(option: str) -> str:
    return f"winml_{option.replace('-', '_')}"


def any_given(config: pytest.Config) -> bool:
    """Whether the command line names one of our options."""
    return any(config.getoption(ini_name(name), None) is not None for name, _, _ in _OPTIONS)


def read_settings(config: pytest.Config) -> Settings:
    """Raises `UsageProblem` for values that cannot be meant."""
    from pytest_winml.settings import Settings

    def value(name: str) -> Any:
        given = config.getoption(ini_name(name))
        return given if given is not None else config.getini(ini_name(name))

    return Settings.parse(
        rootdir=Path(config.rootpath),
        targets=value("target") or (),
        models=value("model") or (),
        require=value("require") or (),
        emulate=value("emulate") or "auto",
        ep_libraries=value("ep-library") or (),
        offline=bool(value("offline")),
        timeout_s=value("timeout") or "600",
        report_dir=value("report-dir") or "reports",
        store=value("store") or "",
        build_only=build_only(config),
    )


def build_only(config: pytest.Config) -> bool:
    given = config.getoption("winml_build_only")
    return bool(given if given is not None else config.getini("winml_build_only"))
