"""`pytest-winml selftest`: how often the harness is wrong on this machine, found out by asking it what is known."""

from __future__ import annotations

import argparse
import re
import secrets
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml.errors import UsageProblem, WinmlError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_winml.measure.protocols import Protocol
    from pytest_winml.records.selftest import SelfTest, Trial
    from pytest_winml.selftest.trials import Bench

_OK, _NOT_HELD, _INTERRUPTED = 0, 1, 2
_ON_A_DEVICE, _SIMULATED = 5, 100
_MOST_COMPARISONS = 10_000
_MODEL = "digits-vit"
_WHOLE = re.compile(r"[0-9]{1,10}")
_EXAMPLES = """examples:
  pytest-winml selftest --target cpu
  pytest-winml selftest --target qnn:npu --model detector.onnx --comparisons 20
  pytest-winml selftest --simulate thermal --comparisons 200 --seed 7

exit status: 0 when the outcomes are consistent with what gates promise (at most 5 % false alarms, at least 80 % of
slowdowns of 10 % found), 1 when a 95 % bound excludes it or a comparison failed, 2 when it was interrupted, 4 for a
mistake in the command and for a target that cannot be timed here."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    selftest = commands.add_parser(
        "selftest",
        help="the harness's own false-alarm rate and power on this machine",
        description="Compares a model with itself, and with itself made 10 % slower, as gates compare, and says how "
        "often the answer was wrong. A comparison takes about a minute of the device.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = selftest.add_mutually_exclusive_group(required=True)
    where.add_argument("--target", metavar="T", help="time on this target: cpu, qnn:npu, dml:gpu, ...")
    where.add_argument("--simulate", metavar="REGIME", help="a described machine instead: calm, thermal, dvfs, ...")
    selftest.add_argument(
        "--model", metavar="NAME", help=f"an embedded model or an .onnx file to compare with itself ({_MODEL})"
    )
    selftest.add_argument(
        "--comparisons",
        metavar="N",
        help=f"A/A comparisons, and as many with a slowdown ({_ON_A_DEVICE}; {_SIMULATED} when simulated)",
    )
    selftest.add_argument("--protocol", default="standard", metavar="P", help="standard or rigorous (standard)")
    selftest.add_argument("--seed", metavar="S", help="with --simulate: the same seed gives the same answer")
    selftest.add_argument("--store", default="", metavar="DIR", help="the store of build results")
    selftest.add_argument("--ep-library", action="append", default=[], metavar="EP=PATH", help="load an EP from here")
    selftest.add_argument("--offline", action="store_true", help="never touch the network")
    selftest.add_argument(
        "--timeout", default="600", metavar="S", help="seconds one call into native code may take (600)"
    )
    selftest.add_argument("--json", action="store_true", help="the result as JSON; progress goes to stderr")


def run(chosen: argparse.Namespace) -> int:
    from pytest_winml.selftest.trials import assess, run_trials

    protocol = _protocol(chosen.protocol)
    default = _SIMULATED if chosen.simulate is not None else _ON_A_DEVICE
    comparisons = _whole("--comparisons", chosen.comparisons, default, least=1, most=_MOST_COMPARISONS)
    seed = _seed(chosen)
    trials: list[Trial] = []
    failure: WinmlError | None = None
    interrupted = False
    with _bench(chosen, protocol, seed) as bench:
        subject = bench.subject
        _say(chosen, f"{subject}, compared with itself by the {protocol.name} protocol")
        try:
            for trial in run_trials(bench, comparisons):
                trials.append(trial)
                _show_trial(chosen, trial, 2 * comparisons)
        except KeyboardInterrupt:
            interrupted = True
        except WinmlError as error:
            failure = error
    found = assess(
        trials,
        subject=subject,
        protocol=protocol.name,
        planned=2 * comparisons,
        seed=seed,
        interrupted=interrupted or failure is not None,
    )
    _show(chosen, found)
    if failure is not None:
        print(f"pytest-winml: {failure}".replace("--winml-", "--"), file=sys.stderr)
        return _NOT_HELD
    if not found.consistent:
        return _NOT_HELD
    return _INTERRUPTED if interrupted else _OK


@contextmanager
def _bench(chosen: argparse.Namespace, protocol: Protocol, seed: int | None) -> Iterator[Bench]:
    if seed is not None:
        from pytest_winml.selftest.simulated import SimulatedBench

        yield SimulatedBench(chosen.simulate, protocol, seed=seed, on_progress=_on_progress())
        return
    from pytest_winml.records.target import as_target
    from pytest_winml.selftest.machine import machine_bench
    from pytest_winml.session.messages import ProviderSettings
    from pytest_winml.settings import Settings

    settings = Settings.parse(
        rootdir=Path.cwd(),
        targets=(),
        models=(),
        require=(),
        emulate="auto",
        ep_libraries=chosen.ep_library,
        offline=chosen.offline,
        timeout_s=chosen.timeout,
        report_dir="reports",
        store=chosen.store,
    )
    with machine_bench(
        _MODEL if chosen.model is None else chosen.model,
        as_target(chosen.target),
        protocol,
        ProviderSettings(ep_libraries=settings.ep_libraries, offline=settings.offline),
        timeout_s=settings.timeout_s,
        store=settings.store,
        on_progress=_on_progress(),
    ) as bench:
        yield bench


def _protocol(name: str) -> Protocol:
    from pytest_winml.measure.protocols import protocol_named

    protocol = protocol_named(name)
    if not protocol.judges:
        raise UsageProblem(
            f"the {name} protocol screens: it gives no verdict that could be wrong",
            remedy="test the standard or the rigorous protocol.",
        )
    return protocol


def _seed(chosen: argparse.Namespace) -> int | None:
    """None on a device, whose plans are drawn anew: nothing there can be repeated by a seed."""
    if chosen.simulate is None:
        if chosen.seed is not None:
            raise UsageProblem("--seed repeats a simulation, and no device", remedy="leave it out.")
        return None
    if chosen.model is not None:
        raise UsageProblem("--simulate has no model", remedy="leave out --model, or name a --target.")
    return _whole("--seed", chosen.seed, secrets.randbits(32), least=0, most=2**32)


def _whole(option: str, text: str | None, default: int, *, least: int, most: int) -> int:
    if text is None:
        return default
    if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
        raise UsageProblem(f"{option} {text!r} is not a whole number from {least} to {most}")
    return int(text)


def _say(chosen: argparse.Namespace, line: str) -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    print(line, file=sys.stderr if chosen.json else sys.stdout, flush=True)


def _on_progress() -> Callable[[str], None]:
    """One line on a terminal that the next one overwrites; nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda text: print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _show_trial(chosen: argparse.Namespace, trial: Trial, planned: int) -> None:
    from pytest_winml.report.selftest import trial_line

    _say(chosen, trial_line(trial, planned))


def _show(chosen: argparse.Namespace, found: SelfTest) -> None:
    import msgspec

    from pytest_winml.report.selftest import selftest_lines

    if chosen.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=1).decode())
        return
    _say(chosen, "")
    print("\n".join(selftest_lines(found, shutil.get_terminal_size((100, 24)).columns)))
