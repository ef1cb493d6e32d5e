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
    ("protocol", "string", {"metavar": "NAME", "help": "how much to time: quick, standard or rigorous (standard)"}),
    ("budget", "string", {"metavar": "TIME", "help": "device time for all timed tests together, such as 20m"}),
    ("save", "string", {"metavar": "NAME", "help": "keep what is timed as the baseline of this name"}),
    ("baseline", "string", {"metavar": "NAME", "help": "hold what is timed against the baseline of this name"}),
    ("baselines", "string", {"metavar": "URL", "help": "where baselines are kept, a folder or URL (winml-baselines)"}),
    ("gate", "string", {"metavar": "LIMITS", "help": "limits of every timed test, such as latency=5%%,size=2%%"}),
    ("strict", "bool", {"action": "store_true", "default": None, "help": "a gate that cannot be applied fails"}),
    ("resume", "bool", {"action": "store_true", "default": None, "help": "go on with the sessions of a killed run"}),
    (
        "ignore-identity",
        "args",
        {"action": "append", "metavar": "FIELD", "help": "compare although this field of the machine differs"},
    ),
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
    from pytest_winml.settings import Settings, TimingSettings

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
        timing=TimingSettings.parse(
            rootdir=Path(config.rootpath),
            protocol=value("protocol") or "standard",
            budget=value("budget") or "",
            save=value("save") or "",
            baseline=value("baseline") or "",
            baselines=value("baselines") or "",
            gate=value("gate") or "",
            strict=bool(value("strict")),
            resume=bool(value("resume")),
            ignore_identity=value("ignore-identity") or (),
        ),
    )


def build_only(config: pytest.Config) -> bool:
    given = config.getoption("winml_build_only")
    return bool(given if given is not None else config.getini("winml_build_only"))
