"""The command `pytest-winml`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_winml import cache, compare, selftest_command
from pytest_winml.errors import WinmlError
from pytest_winml.version import version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_winml.settings import Settings

_OK, _UNHEALTHY, _USAGE = 0, 1, 4
_DOCTOR_EXAMPLE = """examples:
  pytest-winml doctor
  pytest-winml doctor --json > doctor.json
  pytest-winml doctor --ep-library qnn=libs/libonnxruntime_providers_qnn.so

exit status: 0 when every target that this machine promises opened and ran a model, 1 when one did not, 4 for a
mistake in the command."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    chosen = parser.parse_args(arguments)
    try:
        match chosen.command:
            case "cache":
                return cache.run(chosen)
            case "compare":
                return compare.run(chosen)
            case "selftest":
                return selftest_command.run(chosen)
            case _:
                return _doctor(chosen)
    except WinmlError as error:
        # The options of a run are this command's without their prefix.
        print(f"pytest-winml: {error}".replace("--winml-", "--"), file=sys.stderr)
        return _USAGE
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stdout = None  # so that the interpreter does not flush into it again
        return _OK


class _Parser(argparse.ArgumentParser):
    """Mistakes exit with 4, as pytest's do."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.print_usage(sys.stderr)
        self.exit(_USAGE, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="pytest-winml", description="ONNX models on Windows ML execution providers, tested."
    )
    parser.add_argument("--version", action="version", version=version())
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser(
        "doctor",
        help="what is installed, which targets run here, what is broken and how to fix it",
        description="Tries every target with a real model and says what it found.",
        epilog=_DOCTOR_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("--json", action="store_true", help="the findings as JSON, for scripts")
    doctor.add_argument("--ep-library", action="append", default=[], metavar="EP=PATH", help="load an EP from here")
    doctor.add_argument("--offline", action="store_true", help="never touch the network")
    doctor.add_argument(
        "--timeout", default="120", metavar="S", help="seconds one call into native code may take (120)"
    )
    selftest_command.add_parser(commands)
    compare.add_parser(commands)
    cache.add_parser(commands)
    return parser


def _doctor(chosen: argparse.Namespace) -> int:
    import msgspec

    from pytest_winml.doctor.examination import examine
    from pytest_winml.execute.pool import WorkerPool
    from pytest_winml.report.doctor import doctor_lines
    from pytest_winml.session.machine import Machine
    from pytest_winml.session.messages import ProviderSettings

    settings = _settings(chosen)
    show = sys.stderr.isatty()
    with (
        tempfile.TemporaryDirectory(prefix="winml-", ignore_cleanup_errors=True) as name,
        WorkerPool(Path(name)) as pool,
    ):
        providers = ProviderSettings(ep_libraries=settings.ep_libraries, offline=settings.offline)
        machine = Machine(pool, providers, timeout_s=settings.timeout_s)
        diagnosis = examine(machine, lambda spec: _progress(f"trying {spec}") if show else None)
    if show:
        _progress("")
    if chosen.json:
        print(msgspec.json.format(msgspec.json.encode(diagnosis), indent=1).decode())
    else:
        print("\n".join(doctor_lines(diagnosis, shutil.get_terminal_size((100, 24)).columns)))
    return _OK if diagnosis.healthy else _UNHEALTHY


def _progress(text: str) -> None:
    """One line on the terminal that the next one overwrites."""
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _settings(chosen: argparse.Namespace) -> Settings:
    from pytest_winml.settings import Settings

    return Settings.parse(
        rootdir=Path.cwd(),
        targets=(),
        models=(),
        require=(),
        emulate="auto",
        ep_libraries=chosen.ep_library,
        offline=chosen.offline,
        timeout_s=chosen.timeout,
        report_dir="reports",
    )


if __name__ == "__main__":
    sys.exit(main())
