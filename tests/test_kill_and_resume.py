"""The small version of tools/kill_and_resume.py: three kills of a real run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.platforms import needs_runtime

SCRIPT = Path(__file__).parent.parent / "tools" / "kill_and_resume.py"


@needs_runtime
def test_a_run_killed_three_times_ends_with_the_store_of_an_unbroken_one() -> None:
    command = [sys.executable, str(SCRIPT), "--small", "--kills", "3"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "stores equal by key and content: True" in result.stdout
