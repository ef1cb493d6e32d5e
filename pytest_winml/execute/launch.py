"""Starting the interpreter of a worker so that it imports what its parent imports, and nothing of its directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# An embedded interpreter ignores PYTHONPATH and -m finds only what PYTHONPATH offers, so the path travels by itself.
_PATH_VARIABLE = "PYTEST_WINML_WORKER_PATH"
_BOOTSTRAP = (
    f"import json, os, sys; sys.path[:] = json.loads(os.environ.pop({_PATH_VARIABLE!r})); "
    "from pytest_winml.execute.child import main; sys.exit(main(sys.argv[1:]))"
)


def start(
    arguments: Sequence[str], *, python: str, directory: Path, log_path: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """A child with pipes for requests and answers; what its interpreter says before it is ours goes to the log."""
    with log_path.open("ab") as log:
        return subprocess.Popen(
            # -P: a json.py that an EP or a test leaves in the directory is no module; -u: nothing printed is lost.
            [python, "-P", "-u", "-c", _BOOTSTRAP, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            bufsize=0,
            cwd=directory,
            env=_environment(environment),
            # Ctrl-C is for the parent, which then kills the whole group.
            start_new_session=sys.platform != "win32",
            creationflags=_creation_flags(),
        )


def _creation_flags() -> int:
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    return flags


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Relative entries are meant from the parent's directory, which is not the child's."""
    environment = {**os.environ, **extra}
    if python_path := environment.get("PYTHONPATH"):
        environment["PYTHONPATH"] = os.pathsep.join(_absolute(python_path.split(os.pathsep)))
    environment[_PATH_VARIABLE] = json.dumps(_absolute(sys.path))
    return environment


def _absolute(entries: Sequence[str]) -> list[str]:
    return [str(Path(entry).absolute()) for entry in entries]
