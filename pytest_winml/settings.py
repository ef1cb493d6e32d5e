"""What the user chose for a run."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import url2pathname

from pytest_winml.errors import UsageProblem, unknown_name
from pytest_winml.measure.protocols import PROTOCOLS, Protocol, protocol_named
from pytest_winml.providers.binding import EMULATE_WORDS, Emulate
from pytest_winml.records.base import Record
from pytest_winml.records.gate import Gate, parse_option
from pytest_winml.records.identity import ignorable
from pytest_winml.records.target import EP_BY_NAME, canonical_spec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_winml.records.target import Target

BASELINES = "winml-baselines"
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smh]?)")
_SECONDS_IN = {"s": 1.0, "m": 60.0, "h": 3600.0}


class TimingSettings(Record, frozen=True, kw_only=True):
    """How timed tests are measured and judged."""

    protocol: Protocol = PROTOCOLS["standard"]
    budget_s: float | None = None
    save: str | None = None
    baseline: str | None = None
    baselines: str = BASELINES
    gate: Gate = Gate()
    strict: bool = False
    resume: bool = False
    ignore_identity: tuple[str, ...] = ()

    @classmethod
    def parse(
        cls,
        *,
        rootdir: Path,
        protocol: str = "standard",
        budget: str = "",
        save: str = "",
        baseline: str = "",
        baselines: str = "",
        gate: str = "",
        strict: bool = False,
        resume: bool = False,
        ignore_identity: Iterable[str] = (),
    ) -> TimingSettings:
        chosen = protocol_named(protocol)
        if save and not chosen.judges:
            raise UsageProblem(
                f"--winml-save with the {chosen.name} protocol would keep a screen as a baseline",
                remedy="save with the standard or the rigorous protocol.",
            )
        place = baselines or BASELINES
        return cls(
            protocol=chosen,
            budget_s=_duration(budget) if budget else None,
            save=save or None,
            baseline=baseline or None,
            baselines=place if "://" in place else str(rootdir / place),
            gate=parse_option(gate) if gate else Gate(),
            strict=strict,
            resume=resume,
            ignore_identity=tuple(sorted(ignorable(ignore_identity))),
        )


class Settings(Record, frozen=True, kw_only=True):
    rootdir: Path
    targets: tuple[str, ...]
    models: tuple[str, ...]
    require: tuple[str, ...]
    emulate: Emulate
    ep_libraries: dict[str, str]
    offline: bool
    timeout_s: float
    report_dir: Path
    store: Path | None = None
    build_only: bool = False
    timing: TimingSettings = TimingSettings()

    @classmethod
    def parse(
        cls,
        *,
        rootdir: Path,
        targets: Iterable[str],
        models: Iterable[str],
        require: Iterable[str],
        emulate: str,
        ep_libraries: Iterable[str],
        offline: bool,
        timeout_s: str,
        report_dir: str,
        store: str = "",
        build_only: bool = False,
        timing: TimingSettings = TimingSettings(),  # noqa: B008 - frozen
    ) -> Settings:
        return cls(
            rootdir=rootdir,
            targets=tuple(canonical_spec(spec) for spec in targets),
            models=tuple(models),
            require=tuple(canonical_spec(spec) for spec in require),
            emulate=_emulate(emulate),
            ep_libraries=dict(_ep_library(text, rootdir) for text in ep_libraries),
            offline=offline,
            timeout_s=_seconds(timeout_s),
            report_dir=rootdir / report_dir,
            store=_store(store, rootdir),
            build_only=build_only,
            timing=timing,
        )

    def requires(self, target: Target) -> bool:
        """Whether a skip of this target is a failure: it was named, or its device was."""
        return _named(target, self.require)

    def selects(self, model: str, target: Target) -> bool:
        by_target = not self.targets or _named(target, self.targets)
        return by_target and (not self.models or model in self.models)

    def summary(self) -> dict[str, str | list[str] | float | bool | None]:
        """What the report keeps; paths of this machine stay out of it."""
        return {
            "target": list(self.targets),
            "model": list(self.models),
            "require": list(self.require),
            "emulate": self.emulate,
            "ep_library": sorted(self.ep_libraries),
            "offline": self.offline,
            "timeout_s": self.timeout_s,
            "build_only": self.build_only,
            "protocol": self.timing.protocol.name,
            "budget_s": self.timing.budget_s,
            "save": self.timing.save,
            "baseline": self.timing.baseline,
            "gate": [f"{limit.metric}={limit.text}" for limit in self.timing.gate.limits],
            "strict": self.timing.strict,
            "resume": self.timing.resume,
            "ignore_identity": list(self.timing.ignore_identity),
        }


def _named(target: Target, specs: tuple[str, ...]) -> bool:
    """`npu` and `gpu` name every target with that device; `cpu` names the CPU EP, and no other EP on a CPU."""
    return target.spec in specs or (target.device != "cpu" and target.device in specs)


def _emulate(word: str) -> Emulate:
    for known in EMULATE_WORDS:
        if word == known:
            return known
    raise unknown_name("--winml-emulate", word, EMULATE_WORDS)


def _ep_library(text: str, rootdir: Path) -> tuple[str, str]:
    ep, equals, path = text.partition("=")
    name = ep.strip().lower()
    if not equals or not path:
        raise UsageProblem(f"--winml-ep-library {text!r} is not EP=PATH", remedy="write qnn=/folder/library.")
    if name not in EP_BY_NAME or name == "cpu":
        raise unknown_name("EP in --winml-ep-library", ep, [known for known in EP_BY_NAME if known != "cpu"])
    return name, str(rootdir / path)


def _store(text: str, rootdir: Path) -> Path | None:
    """None is the user's own cache folder."""
    if not text:
        return None
    scheme, separator, rest = text.partition("://")
    if not separator:
        return rootdir / text
    if scheme != "file":
        raise UsageProblem(f"--winml-store {text!r}: this version keeps artifacts in a local folder only")
    return Path(url2pathname(rest))


def _duration(text: str) -> float:
    """`90`, `90s`, `20m`, `1.5h`."""
    match = _DURATION.fullmatch(text.strip().lower())
    value = float(match[1]) * _SECONDS_IN[match[2] or "s"] if match else 0.0
    if not 0 < value < math.inf:
        raise UsageProblem(f"--winml-budget {text!r} is no time", remedy="write 90s, 20m or 1.5h.")
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageProblem(f"--winml-timeout {text!r} is not a number of seconds above 0")
    return value
