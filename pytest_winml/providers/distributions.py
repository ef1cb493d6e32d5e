"""Which installed distributions provide the module `onnxruntime`, found without importing it.

Several distributions install the same module, and pip lets two of them overwrite each other in silence. Worse, to
uninstall one of two removes the files they share: the other one is then recorded as installed and is gone.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.metadata import Distribution as InstalledDistribution

MODULE_FILE = "onnxruntime/__init__.py"
UNKNOWN_VERSION = "(unknown version)"

# Names to look for. Their list of files decides, not the name: `onnxruntime-qnn` was a whole runtime before version 2
# and is a plugin since, and a name here that turns into a plugin tomorrow is right without a change.
RUNTIME_NAMES = (
    "onnxruntime",
    "onnxruntime-windowsml",
    "onnxruntime-openvino",
    "onnxruntime-directml",
    "onnxruntime-qnn",
    "onnxruntime-gpu",
    "onnxruntime-azure",
    "onnxruntime-cann",
    "onnxruntime-migraphx",
    "onnxruntime-rocm",
    "onnxruntime-silicon",
    "onnxruntime-training",
    "onnxruntime-training-cpu",
    "onnxruntime-vitisai",
    "onnxruntime-webgpu",
    "ort-nightly",
    "ort-nightly-directml",
    "ort-nightly-gpu",
    "ort-nightly-qnn",
    "ort-nightly-training",
)


class Distribution(msgspec.Struct, frozen=True):
    name: str
    version: str
    intact: bool = True  # False: recorded as installed, and the module's files are gone

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class RuntimeInstall(msgspec.Struct, frozen=True, kw_only=True):
    """The ONNX Runtimes of an environment; one intact distribution is the only healthy number."""

    distributions: tuple[Distribution, ...]
    # The same distribution again in a later folder of the path: never imported, so no problem, but worth showing.
    shadowed: tuple[Distribution, ...] = ()

    @property
    def problem(self) -> str | None:
        listed = ", ".join(map(str, self.distributions))
        match self.distributions:
            case ():
                return "no ONNX Runtime is installed"
            case (one,) if one.intact:
                return None
            case (_,):
                return (
                    f"{listed} is recorded as installed and its files are gone, "
                    "as happens when another distribution of ONNX Runtime is uninstalled"
                )
        if len({one.name for one in self.distributions}) == 1:
            return f"one distribution is recorded more than once in one folder, by an upgrade cut short: {listed}"
        return f"{len(self.distributions)} distributions install the same module onnxruntime: {listed}"

    @property
    def remedy(self) -> str | None:
        match self.distributions:
            case ():
                return (
                    'pip install "pytest-winml[qnn]" (the NPU, emulated on x64), or exactly one of the extras '
                    "windowsml (on a Windows device), cpu, openvino, openvino-classic in its place"
                )
            case (one,):
                return None if one.intact else _install(one)
        names = " ".join(dict.fromkeys(one.name for one in self.distributions))
        choices = "\nor\n".join(f"  {_install(one)}" for one in self.distributions)
        return (
            "removing one of them takes files of the other with it, so uninstall all and install the one to keep:\n"
            f"  python -m pip uninstall -y {names}\n"
            f"{choices}"
        )


def runtime_install(path: Sequence[str] | None = None) -> RuntimeInstall:
    """The runtimes on `path` (default: `sys.path`), in the order in which `import onnxruntime` would meet them."""
    found: dict[str, Path] = {}
    distributions: list[Distribution] = []
    shadowed: list[Distribution] = []
    for folder in _folders(sys.path if path is None else path):
        for distribution in _runtimes_in(folder):
            home = found.setdefault(distribution.name, folder)
            (distributions if home == folder else shadowed).append(distribution)
    return RuntimeInstall(distributions=tuple(distributions), shadowed=tuple(shadowed))


def _install(distribution: Distribution) -> str:
    pin = "" if distribution.version == UNKNOWN_VERSION else f"=={distribution.version}"
    return f"python -m pip install --force-reinstall --no-deps {distribution.name}{pin}"


def _folders(path: Sequence[str]) -> Iterator[Path]:
    """Each folder once: `lib64` may be a link to `lib`, and a path may name one folder twice."""
    yield from dict.fromkeys(folder for entry in path if (folder := Path(entry).resolve()).is_dir())


def _runtimes_in(folder: Path) -> Iterator[Distribution]:
    from importlib.metadata import distributions  # light until somebody asks

    for name in RUNTIME_NAMES:
        for installed in distributions(name=name, path=[str(folder)]):
            if _has_module(name, installed):
                intact = Path(str(installed.locate_file(MODULE_FILE))).is_file()
                yield Distribution(name, _version(installed), intact)


def _has_module(name: str, installed: InstalledDistribution) -> bool:
    record = installed.read_text("RECORD")
    if record is None:  # not installed by pip: believe the name, where it has only one meaning
        return name != "onnxruntime-qnn"
    paths = (line.partition(",")[0].strip('"').replace("\\", "/") for line in record.splitlines())
    return MODULE_FILE in paths


def _version(installed: InstalledDistribution) -> str:
    """Each Python answers in its own way where METADATA is missing: an error, a warning, nothing."""
    try:
        metadata = installed.metadata
    except TypeError:
        return UNKNOWN_VERSION
    return metadata["Version"] if metadata and "Version" in metadata else UNKNOWN_VERSION
