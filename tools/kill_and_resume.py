"""Kills a build-only run at random points, starts it again, and compares its store with that of an unbroken run.

    python tools/kill_and_resume.py [--kills 20] [--seed 7]

It ends with status 1 if a stage that was finished was built again, or if the two stores differ in a key or in the
content of an entry.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

SUITE = """
import pytest
from pytest_winml import Model, Recipe

DIGITS = [Model.embedded("digits-cnn"), Model.embedded("digits-vit")]
RECIPES = [Recipe(), Recipe(precision="w8a8"), Recipe(precision="fp16"), Recipe(optimize="none")]


@pytest.mark.winml(models=DIGITS[:{models}], recipes=RECIPES[:{recipes}], targets=["cpu"])
def test_build(winml): ...
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--small", action="store_true", help="one model and two recipes")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="winml-kill-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        sizes = {"models": 1, "recipes": 2} if chosen.small else {"models": 2, "recipes": 4}
        (folder / "test_suite.py").write_text(SUITE.format(**sizes), encoding="utf-8")
        started = time.monotonic()
        _run(folder, "whole").wait()
        whole_s = time.monotonic() - started
        generator = random.Random(chosen.seed)  # noqa: S311 - where to kill is no secret
        rebuilt = sum(_killed_run(folder, generator.uniform(0.2, 0.9) * whole_s) for _ in range(chosen.kills))
        status = _run(folder, "broken").wait()
        expected, got = _contents(folder / "whole"), _contents(folder / "broken")
    print(f"unbroken run {whole_s:.1f} s, {len(expected)} entries; after {chosen.kills} kills {len(got)} entries")
    print(f"stages built again although finished: {rebuilt}; exit status of the last run: {status}")
    print(f"stores equal by key and content: {expected == got}")
    return 0 if expected == got and not rebuilt and status == 0 else 1


def _run(folder: Path, store: str) -> subprocess.Popen[bytes]:
    options = ["-q", "-p", "no:cacheprovider", "--winml-build-only", f"--winml-store={store}"]
    return subprocess.Popen([sys.executable, "-m", "pytest", *options], cwd=folder, stdout=subprocess.DEVNULL)


def _killed_run(folder: Path, after_s: float) -> int:
    """Kills the run and its workers after a while; answers how many entries that were there have changed."""
    before = _contents(folder / "broken", times=True)
    process = _run(folder, "broken")
    time.sleep(after_s)
    if process.poll() is None:
        tree = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
        for member in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
    process.wait()
    after = _contents(folder / "broken", times=True)
    return sum(after.get(key) != content for key, content in before.items())


def _contents(store: Path, *, times: bool = False) -> dict[str, tuple[str, ...]]:
    found = {}
    for path in store.glob("entries/*/*/entry.json"):
        entry = json.loads(path.read_text(encoding="utf-8"))
        found[entry["key"]] = (entry["content_digest"], *([entry["created_at"]] if times else []))
    return found


if __name__ == "__main__":
    sys.exit(main())
