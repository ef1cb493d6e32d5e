"""Twenty real comparisons of an embedded model with itself, and twenty with an injected slowdown of 10 %.

    python tools/real_comparisons.py --out real.jsonl        # about an hour, on a machine as noisy as it is

Every comparison is kept in the file as soon as it is made; the same command goes on where an earlier one ended.
Builds and timings of other runs on the machine wait meanwhile; with `--beside-others` they do not, and are the noise.

Exit status: 0 no comparison of the model with itself was called REGRESSED and at least 18 of 20 slowdowns were, 1
otherwise, 2 interrupted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pytest_winml.data.digits import EMBEDDED_MODELS
from pytest_winml.execute.rwlock import DeviceLocks
from pytest_winml.measure.protocols import PROTOCOLS
from pytest_winml.records.base import Record
from pytest_winml.records.selftest import Trial
from pytest_winml.records.target import Target
from pytest_winml.report.selftest import selftest_lines, trial_line
from pytest_winml.selftest.machine import machine_bench
from pytest_winml.selftest.trials import assess, run_trials
from pytest_winml.session.messages import ProviderSettings

LEAST_FOUND = 18 / 20
TIMEOUT_S = 600.0


class Heading(Record, frozen=True, kw_only=True):
    """What all comparisons of a file have in common. Schema versions: 1 first."""

    schema_version: int = 1
    model: str
    target: str
    protocol: str


class Results:
    """A file of JSON lines: the heading, then a trial a line. A last line that was cut is made again."""

    def __init__(self, path: Path, heading: Heading) -> None:
        self._path = path
        self.trials: list[Trial] = []
        lines = path.read_bytes().splitlines() if path.exists() else []
        if lines and msgspec.json.decode(lines[0], type=Heading) != heading:
            sys.exit(f"{path} holds comparisons of something else: choose another --out")
        for line in lines[1:]:
            try:
                self.trials.append(msgspec.json.decode(line, type=Trial))
            except msgspec.DecodeError:
                break
        path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in (heading, *self.trials)))

    def add(self, trial: Trial) -> None:
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(trial) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.trials.append(trial)


def shown(trial: Trial, planned: int) -> str:
    remarks = " ".join(trial.verdict.reasons[1:])
    return trial_line(trial, planned) + (f"\n       {remarks}" if remarks else "")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], epilog=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="where the comparisons are kept (JSON lines)")
    parser.add_argument("--comparisons", type=int, default=20, help="of each kind")
    parser.add_argument("--model", choices=EMBEDDED_MODELS, default="digits-vit")
    parser.add_argument("--target", default="cpu")
    parser.add_argument(
        "--protocol", choices=[one.name for one in PROTOCOLS.values() if one.judges], default="standard"
    )
    parser.add_argument("--beside-others", action="store_true", help="do not make others on this machine wait")
    given = parser.parse_args(arguments)
    results = Results(given.out, Heading(model=given.model, target=given.target, protocol=given.protocol))
    planned = 2 * given.comparisons
    for trial in results.trials:
        print(shown(trial, planned), flush=True)
    interrupted = False
    with (
        TemporaryDirectory(prefix="winml-locks-") as folder,
        machine_bench(
            given.model,
            Target(given.target),
            PROTOCOLS[given.protocol],
            ProviderSettings(),
            timeout_s=TIMEOUT_S,
            locks=DeviceLocks(Path(folder)) if given.beside_others else None,
            on_progress=lambda _: None,
        ) as bench,
    ):
        subject = bench.subject
        try:
            for trial in run_trials(bench, given.comparisons, done=results.trials):
                results.add(trial)
                print(shown(trial, planned), flush=True)
        except KeyboardInterrupt:
            interrupted = True
    found = assess(results.trials, subject=subject, protocol=given.protocol, planned=planned, interrupted=interrupted)
    print("\n".join(["", f"{subject}, {given.protocol} protocol", *selftest_lines(found, 110)]))
    if results.trials:
        sessions = [trial.verdict.sessions for trial in results.trials]
        print(
            f"sessions of a comparison: {min(sessions)} to {max(sessions)}, {statistics.mean(sessions):.1f} on average"
        )
    if found.false_alarms.hits or (found.power.share is not None and found.power.share < LEAST_FOUND):
        return 1
    return 2 if interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
