"""Prove with uv's resolver that every extra installs everywhere it should, with exactly one ONNX Runtime.

    python tools/check_resolution.py            # every platform, Python and extra
    python tools/check_resolution.py --small    # eight telling combinations

Only metadata is fetched; nothing is downloaded or installed, so every platform is checked from any other.
Exit status: 0 as expected, 1 a combination is not as expected, 2 nothing could be checked (no uv, no package index).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
CONSTRAINTS = PROJECT.with_name("constraints.txt")
TIMEOUT_S = 300.0

# uv's names. glibc is that of a current Linux, since onnxruntime-qnn asks for 2.35 (x64) and 2.34 (aarch64).
PLATFORMS = {
    "win_amd64": "x86_64-pc-windows-msvc",
    "win_arm64": "aarch64-pc-windows-msvc",
    "linux_x86_64": "x86_64-manylinux_2_39",
    "linux_aarch64": "aarch64-manylinux_2_39",
    "macos_arm64": "aarch64-apple-darwin",
}
# uv takes macOS's version from here; onnxruntime's wheels begin with 14.
MACOS_VERSION = "14.0"
PYTHONS = ("3.11", "3.13")

EVERYWHERE = frozenset(PLATFORMS)
WINDOWS = frozenset({"win_amd64", "win_arm64"})
X64 = frozenset({"win_amd64", "linux_x86_64"})
MACOS = frozenset({"macos_arm64"})

# Distributions that install the module `onnxruntime`. Two of them in one environment break each other. The plugins
# onnxruntime-qnn (since version 2) and onnxruntime-ep-openvino are not among them.
RUNTIMES = frozenset(
    {
        "onnxruntime",
        "onnxruntime-directml",
        "onnxruntime-gpu",
        "onnxruntime-openvino",
        "onnxruntime-windowsml",
        "ort-nightly",
    }
)


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What an extra brings on the platforms `where` it means something, and which runtime it brings elsewhere."""

    runtime: str | None = None
    packages: frozenset[str] = frozenset()
    where: frozenset[str] = EVERYWHERE
    runtime_elsewhere: str | None = None  # None: the extra is empty there

    def runtime_on(self, platform: str) -> str | None:
        return self.runtime if platform in self.where else self.runtime_elsewhere


EXPECTATIONS = {
    "cpu": Expectation(runtime="onnxruntime"),
    "qnn": Expectation(
        runtime="onnxruntime",
        packages=frozenset({"onnxruntime-qnn"}),
        where=EVERYWHERE - MACOS,
        runtime_elsewhere="onnxruntime",
    ),
    "windowsml": Expectation(
        runtime="onnxruntime-windowsml", packages=frozenset({"windowsml"}), where=WINDOWS
    ),  # empty elsewhere
    "openvino": Expectation(
        runtime="onnxruntime",
        packages=frozenset({"onnxruntime-ep-openvino"}),
        where=X64,
        runtime_elsewhere="onnxruntime",
    ),
    "openvino-classic": Expectation(runtime="onnxruntime-openvino", where=X64),  # empty elsewhere
    "hf": Expectation(
        packages=frozenset({"torch", "transformers", "optimum-onnx"}), where=EVERYWHERE - {"win_arm64"}
    ),  # empty on Windows arm64, where torch and pyarrow have no wheel
    "benchmark": Expectation(packages=frozenset({"pytest-benchmark", "pygal"})),
    "cluster": Expectation(packages=frozenset({"distributed"})),
    "test": Expectation(packages=frozenset({"hypothesis", "pytest-xdist"})),
}


@dataclass(frozen=True, kw_only=True)
class Combination:
    platform: str
    python: str
    extras: tuple[str, ...] = ()
    also: str | None = None  # one more requirement, next to the project's
    constrained: bool = False  # to the versions of constraints.txt

    @property
    def label(self) -> str:
        more = [self.also, "constraints.txt" if self.constrained else None]
        return " + ".join([",".join(self.extras) or "core", *filter(None, more)])


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """What uv answered: packages, or why there are none; `reached` is False when it could not ask the index."""

    packages: frozenset[str] = frozenset()
    refusal: str | None = None
    reached: bool = True

    @property
    def runtimes(self) -> tuple[str, ...]:
        return tuple(sorted(self.packages & RUNTIMES))


# The pair that the extra of the `windowsml` package itself pins, beside the newest that our extra takes.
WITH_ORT = "windowsml[with-ort]"
TOGETHER = ("qnn", "hf", "test")


def all_combinations(extras: tuple[str, ...]) -> list[Combination]:
    chosen = [(), *((extra,) for extra in extras), TOGETHER]
    found = [
        Combination(platform=platform, python=python, extras=choice)
        for platform in PLATFORMS
        for python in PYTHONS
        for choice in (chosen if platform not in MACOS else [(), ("cpu",)])
    ]
    pinned = [
        Combination(platform=platform, python=python, extras=("windowsml",), also=WITH_ORT)
        for platform in sorted(WINDOWS)
        for python in PYTHONS
    ]
    tested = [
        Combination(platform="linux_x86_64", python="3.11", extras=choice, constrained=True)
        for choice in (*chosen, (*TOGETHER, "benchmark"))
    ]
    return [*found, *pinned, *tested, CONSTRAINED_ON_WINDOWS, CONSTRAINED_WINDOWSML]


CONSTRAINED_ON_WINDOWS = Combination(platform="win_amd64", python="3.13", extras=TOGETHER, constrained=True)
CONSTRAINED_WINDOWSML = Combination(platform="win_amd64", python="3.13", extras=("windowsml",), constrained=True)

SMALL = [
    Combination(platform="win_amd64", python="3.13", extras=TOGETHER),
    Combination(platform="win_arm64", python="3.11", extras=("windowsml",)),
    Combination(platform="win_arm64", python="3.13", extras=("hf",)),
    CONSTRAINED_ON_WINDOWS,
    Combination(platform="linux_x86_64", python="3.11", extras=TOGETHER),
    Combination(platform="linux_x86_64", python="3.13", extras=("openvino-classic",)),
    Combination(platform="linux_aarch64", python="3.13", extras=("qnn",)),
    Combination(platform="macos_arm64", python="3.13", extras=("cpu",)),
]


def project_extras(project: Path = PROJECT) -> tuple[str, ...]:
    return tuple(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"])


def find_uv() -> list[str] | None:
    if importlib.util.find_spec("uv") is not None:
        return [sys.executable, "-m", "uv"]
    found = shutil.which("uv")
    return [found] if found else None


def resolve(combination: Combination, uv: list[str], project: Path = PROJECT) -> Resolution:
    command = [*uv, "pip", "compile", str(project), "--quiet", "--no-header", "--no-annotate"]
    command += ["--only-binary", ":all:", "--no-python-downloads"]
    command += ["--python-platform", PLATFORMS[combination.platform], "--python-version", combination.python]
    for extra in combination.extras:
        command += ["--extra", extra]
    if combination.constrained:
        command += ["--constraint", str(CONSTRAINTS)]
    if combination.also:
        command += ["-"]
    try:
        answer = subprocess.run(
            command,
            input=combination.also or "",
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "MACOSX_DEPLOYMENT_TARGET": MACOS_VERSION},
        )
    except subprocess.TimeoutExpired:
        return Resolution(refusal=f"uv did not answer within {TIMEOUT_S:g} s", reached=False)
    if answer.returncode != 0:
        # uv: 1 is "no solution", anything else is trouble of its own, such as an index that does not answer.
        return Resolution(refusal=_one_line(answer.stderr), reached=answer.returncode == 1)
    lines = [line.partition(";")[0].strip() for line in answer.stdout.splitlines()]
    return Resolution(packages=frozenset(line.partition("==")[0].lower() for line in lines if "==" in line))


def _one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines() if line.strip())[:400] or "uv gave no reason"


def violations(combination: Combination, resolution: Resolution) -> list[str]:
    """What is not as the expectations say; empty when all is well."""
    if resolution.refusal is not None:
        return [f"does not resolve: {resolution.refusal}"]
    if unknown := [extra for extra in combination.extras if extra not in EXPECTATIONS]:
        return [f"no expectation is written for the extra {', '.join(unknown)}"]
    found = []
    expectations = [EXPECTATIONS[extra] for extra in combination.extras]
    wanted = {name for one in expectations if (name := one.runtime_on(combination.platform))}
    if len(resolution.runtimes) > 1:
        found.append(f"two runtimes in one environment: {', '.join(resolution.runtimes)}")
    elif set(resolution.runtimes) != wanted:
        found.append(f"runtime {', '.join(resolution.runtimes) or 'none'}, expected {', '.join(wanted) or 'none'}")
    for extra, one in zip(combination.extras, expectations, strict=True):
        here = one.packages if combination.platform in one.where else frozenset()
        if missing := here - resolution.packages:
            found.append(f"{extra} lacks {', '.join(sorted(missing))}")
        if surplus := (one.packages - here) & resolution.packages:
            found.append(f"{extra} should not bring {', '.join(sorted(surplus))} here")
    return found


def row(combination: Combination, resolution: Resolution, wrong: list[str]) -> str:
    runtime = ", ".join(resolution.runtimes) or "none"
    empty = [
        extra
        for extra in combination.extras
        if extra in EXPECTATIONS
        and combination.platform not in EXPECTATIONS[extra].where
        and EXPECTATIONS[extra].runtime_elsewhere is None
    ]
    note = "; ".join(wrong) or (f"{', '.join(empty)} is empty here, as it should be" if empty else "ok")
    where = f"{combination.platform:<14}{combination.python:<6}{combination.label:<40}"
    return f"{where}{len(resolution.packages):>4}  {runtime:<24}{note}"


def check(combinations: list[Combination], uv: list[str], project: Path = PROJECT) -> int:
    with ThreadPoolExecutor(max_workers=2) as pool:
        resolutions = list(pool.map(lambda one: resolve(one, uv, project), combinations))
    if unreached := [one for one in resolutions if not one.reached]:
        print(f"the package index could not be asked: {unreached[0].refusal}")
        return 2
    bad = 0
    print(f"{'platform':<14}{'py':<6}{'extras':<40}{'pkgs':>4}  {'runtime':<24}result")
    for combination, resolution in zip(combinations, resolutions, strict=True):
        wrong = violations(combination, resolution)
        bad += bool(wrong)
        print(row(combination, resolution, wrong))
    print(f"{len(combinations)} combinations, {bad} not as expected")
    return 1 if bad else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check that every extra resolves with exactly one ONNX Runtime.")
    parser.add_argument("--small", action="store_true", help="eight combinations instead of all")
    options = parser.parse_args(arguments)
    uv = find_uv()
    if uv is None:
        print("uv is not installed: pip install uv")
        return 2
    return check(SMALL if options.small else all_combinations(project_extras()), uv)


if __name__ == "__main__":
    sys.exit(main())
