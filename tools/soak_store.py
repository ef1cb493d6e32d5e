"""Kills builders at random points and proves that the store ends as if nobody had.

    python tools/soak_store.py [--kills 20] [--builders 4] [--models 4] [--size-mb 3] [--seed 7]

Builders are real processes that work through the same made-up models, each a chain of four stages that write files and
take their time. One builder after the other is killed (SIGKILL, TerminateProcess) after a random while and another one
takes its place. When the work runs out before the kills do, it starts again in an empty store.

Checked, of every store, against one that was built without a kill:
  the same keys with the same content; every byte as it was written; no stage begun again once it was finished;
  no temporary folder left.

Exit status: 0 fine, 1 something of this did not hold.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_winml.records.store import StageIngredients

CHAIN = ("export", "optimize", "quantize", "compile")
CHUNKS = 6  # a file is written in so many parts, with a pause after each
STAGE_S = 0.25
LIMIT_S = 300.0
LONGEST_LIFE = 0.25  # of a run that nobody kills


@dataclass
class Tally:
    """What the killed builders did, over all stores."""

    kills: int = 0
    stores: int = 0
    begun: int = 0
    finished: int = 0
    inside: int = 0  # kills that left a temporary folder: they hit a stage at work
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Site:
    """A store that is being built, and the log its builders append to."""

    root: Path
    log: Path
    chosen: argparse.Namespace

    def start(self, generator: random.Random) -> subprocess.Popen[bytes]:
        settings = {"models": self.chosen.models, "size-mb": self.chosen.size_mb, "seed": generator.randrange(10**6)}
        options = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
        return subprocess.Popen([sys.executable, __file__, "--build", str(self.root), str(self.log), *options])

    def start_all(self, generator: random.Random) -> list[subprocess.Popen[bytes]]:
        return [self.start(generator) for _ in range(self.chosen.builders)]


# One builder.


def build_all(root: Path, log: Path, models: int, size_mb: float, seed: int) -> None:
    """Every model's chain, models in an order of this builder's own so that builders meet and part."""
    from pytest_winml.store.artifacts import ArtifactStore, stage_key

    store = ArtifactStore(root)
    order = list(range(models))
    random.Random(seed).shuffle(order)  # noqa: S311 - an order, not a secret
    for model in order:
        digest = f"model {model}"
        inputs: tuple[str, ...] = ()
        for stage in CHAIN:
            made_of = ingredients_of(stage, digest)
            key = stage_key(made_of)
            outcome = store.build(made_of, stage_at_work(log, key, size_mb), model=f"model {model}", inputs=inputs)
            if not outcome.reused:
                note(log, f"finished {key}")
            digest, inputs = outcome.entry.content_digest, (key,)


def ingredients_of(stage: str, digest: str) -> StageIngredients:
    from pytest_winml.records.store import StageIngredients

    return StageIngredients(stage=stage, stage_version=1, input_digest=digest, options={"chunks": CHUNKS})


def stage_at_work(log: Path, key: str, size_mb: float) -> Callable[[Path], dict[str, str]]:
    def make(folder: Path) -> dict[str, str]:
        note(log, f"begun {key}")
        for name in ("model.onnx", "model.onnx.data"):
            with (folder / name).open("wb") as file:
                for chunk in range(CHUNKS):
                    file.write(content(f"{key} {name} {chunk}", round(size_mb * 1e6 / 2 / CHUNKS)))
                    time.sleep(STAGE_S / 2 / CHUNKS)
        return {"made by": key}

    return make


def content(seed: str, size: int) -> bytes:
    return hashlib.shake_128(seed.encode()).digest(size)


def note(log: Path, line: str) -> None:
    """One write of one line: lines of several processes do not mix, and a killed one leaves no part."""
    with log.open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


# The one who kills.


def soak(folder: Path, chosen: argparse.Namespace) -> Tally:
    generator = random.Random(chosen.seed)  # noqa: S311 - where to kill is no secret
    whole = Site(folder / "unbroken", folder / "log", chosen)
    began = time.monotonic()
    run_to_the_end([whole.start(generator)])
    whole_s = time.monotonic() - began
    expected = contents(whole.root)
    tally = Tally()
    while tally.kills < chosen.kills and not tally.problems:
        tally.stores += 1
        site = Site(folder / f"store {tally.stores}", folder / f"log {tally.stores}", chosen)
        torment(site, generator, whole_s, tally)
        run_to_the_end(site.start_all(generator))
        run_to_the_end([site.start(generator)])  # a later run, which has nothing to build
        tally.problems += judge(site.root, site.log, expected)
        tally.finished += len(expected)
        tally.begun += site.log.read_text().count("begun")
    return tally


def torment(site: Site, generator: random.Random, whole_s: float, tally: Tally) -> None:
    """Kill and replace, until there were enough kills or a builder came to its end."""
    builders = site.start_all(generator)
    finished: set[str] = set()
    while tally.kills < site.chosen.kills:
        time.sleep(generator.uniform(0, whole_s * LONGEST_LIFE))
        place = generator.randrange(len(builders))
        victim = builders[place]
        victim.kill()
        if victim.wait() == 0:
            break
        tally.kills += 1
        tally.inside += any(f"-{victim.pid}-" in path.name for path in (site.root / "tmp").glob("*"))
        now = contents(site.root).keys()
        tally.problems += [f"{key} was finished and is gone" for key in finished - now]
        finished |= now
        note(site.log, "\n".join(f"there {key}" for key in sorted(now)) + "\nkill")
        builders[place] = site.start(generator)
    run_to_the_end(builders)


def run_to_the_end(builders: list[subprocess.Popen[bytes]]) -> None:
    try:
        statuses = [builder.wait(LIMIT_S) for builder in builders]
    finally:
        for builder in builders:
            builder.kill()  # which does nothing to one that has ended
    if any(statuses):
        raise SystemExit(f"builders that nobody killed ended with status {', '.join(map(str, statuses))}")


# The proof.


def judge(root: Path, log: Path, expected: dict[str, str]) -> list[str]:
    from pytest_winml.store.artifacts import ArtifactStore

    problems = [f"{key} was begun again after it was finished" for key in built_twice(log.read_text().splitlines())]
    found = contents(root)
    problems += [f"{key} is missing" for key in expected.keys() - found.keys()]
    problems += [f"{key} is too much" for key in found.keys() - expected.keys()]
    problems += [f"{key} has other content" for key in expected.keys() & found.keys() if expected[key] != found[key]]
    problems += [f"{damage.key}: {damage.problem}" for damage in ArtifactStore(root).verify().damaged]
    problems += [f"temporary folder left: {path.name}" for path in (root / "tmp").iterdir()]
    return problems


def built_twice(lines: list[str]) -> list[str]:
    """Stages begun after their entry was there: told so by its builder, or seen at a kill. In the order of the log."""
    finished: set[str] = set()
    again = []
    for line in lines:
        word, _, key = line.partition(" ")
        if word in ("finished", "there"):
            finished.add(key)
        elif word == "begun" and key in finished:
            again.append(key)
    return again


def contents(root: Path) -> dict[str, str]:
    from pytest_winml.store.artifacts import ArtifactStore

    return {entry.key: entry.content_digest for entry in ArtifactStore(root).entries()}


def table(tally: Tally, elapsed_s: float) -> str:
    rows = {
        "kills": tally.kills,
        "of these inside a stage": tally.inside,
        "stores": tally.stores,
        "stages finished": tally.finished,
        "stages begun": tally.begun,
        "problems": len(tally.problems),
        "seconds": round(elapsed_s, 1),
    }
    return "\n".join(f"{name:<24}{value:>8}" for name, value in rows.items())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--builders", type=int, default=4)
    parser.add_argument("--models", type=int, default=4)
    parser.add_argument("--size-mb", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--build", nargs=2, metavar=("ROOT", "LOG"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    sys.path.insert(0, os.fspath(Path(__file__).resolve().parents[1]))  # a checkout need not be installed
    if chosen.build:
        root, log = map(Path, chosen.build)
        build_all(root, log, chosen.models, chosen.size_mb, chosen.seed)
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as name:
        tally = soak(Path(name), chosen)
    print(table(tally, time.monotonic() - began))
    print("\n".join(tally.problems[:20]) or "every store ended as if nobody had been killed")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
