from __future__ import annotations

import importlib
import inspect
import json
import sys
import threading
import zipfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_winml.providers import windowsml
from pytest_winml.providers.windowsml import CatalogEntry, CatalogScan, catalog_libraries
from tests.providers import fake_windowsml
from tests.providers.fake_windowsml import EpReadyState, HresultError, Spec, World
from tools.record_windowsml_signatures import USED, record_of_wheel, signatures_of_sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

RECORD = json.loads(Path(__file__).with_name("windowsml_signatures.json").read_text(encoding="utf-8"))


def scan(
    world: World,
    *,
    allow_download: bool = False,
    timeout_s: float = 30.0,
    on_progress: Callable[[str, float], None] | None = None,
) -> CatalogScan:
    return catalog_libraries(
        allow_download=allow_download, timeout_s=timeout_s, on_progress=on_progress, module=world.module()
    )


def only_entry(result: CatalogScan) -> CatalogEntry:
    assert result.problem is None
    (entry,) = result.entries
    return entry


def test_a_ready_provider_is_read_and_nothing_is_started() -> None:
    world = World([Spec()])
    assert only_entry(scan(world)) == CatalogEntry(
        ep_name="QNNExecutionProvider",
        version="2.7.0",
        library_path=Spec().path,
        package_family_name=Spec().family,
        ready=True,
        problem=None,
    )
    assert world.journal == ["catalog closed"]


def test_an_empty_catalog_is_no_problem() -> None:
    assert scan(World([])) == CatalogScan(entries=(), problem=None)


def test_an_installed_provider_is_made_ready_without_permission_to_download_and_tells_its_progress() -> None:
    seen: list[tuple[str, float, threading.Thread]] = []
    world = World([Spec(state=EpReadyState.NotReady, progress=(0.0, 50.0, 100.0, 140.0))])

    def on_progress(name: str, fraction: float) -> None:
        seen.append((name, fraction, threading.current_thread()))

    entry = only_entry(scan(world, on_progress=on_progress))
    assert entry.ready
    assert entry.library_path == Spec().path
    assert [(name, fraction) for name, fraction, _ in seen] == [
        ("QNNExecutionProvider", fraction) for fraction in (0.0, 0.5, 1.0, 1.0)
    ]
    assert {thread for _, _, thread in seen} == {threading.current_thread()}, "not on a thread of Windows"
    assert world.journal == [
        "QNNExecutionProvider started from NotReady",
        "QNNExecutionProvider closed",
        "catalog closed",
    ]


def test_a_provider_that_is_not_installed_is_only_named_without_permission_to_download() -> None:
    world = World([Spec(state=EpReadyState.NotPresent)])
    entry = only_entry(scan(world))
    assert not entry.ready
    assert entry.library_path is None
    assert entry.version is None, "an empty text is not a version"
    assert entry.problem is not None
    assert "download was not allowed" in entry.problem
    assert world.journal == ["catalog closed"], "nothing was started"


def test_a_provider_that_is_not_installed_is_downloaded_with_permission() -> None:
    world = World([Spec(state=EpReadyState.NotPresent, progress=(30.0,))])
    entry = only_entry(scan(world, allow_download=True))
    assert entry.ready
    assert (entry.version, entry.library_path) == (Spec().version, Spec().path), "both are known only afterwards"


def test_a_download_that_takes_too_long_is_cancelled_closed_and_said() -> None:
    world = World([Spec(state=EpReadyState.NotPresent, ending="hangs"), Spec(name="VitisAIExecutionProvider")])
    late, other = scan(world, allow_download=True, timeout_s=0.05).entries
    assert not late.ready
    assert late.problem == (
        "QNNExecutionProvider: could not be downloaded within 0.05 s and was cancelled; allow more time"
    )
    assert other.ready, "the next provider is still read"
    assert world.journal == [
        "QNNExecutionProvider started from NotPresent",
        "QNNExecutionProvider cancelled",
        "QNNExecutionProvider closed",
        "catalog closed",
    ]


def test_work_that_ends_well_while_it_is_being_cancelled_counts() -> None:
    assert only_entry(scan(World([Spec(state=EpReadyState.NotReady, ending="wins")]), timeout_s=0.05)).ready


def test_an_operation_that_ignores_cancel_does_not_block_and_keeps_the_catalog_open_until_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windowsml, "CANCEL_GRACE_S", 0.05)
    world = World([Spec(state=EpReadyState.NotReady, ending="deaf"), Spec(name="VitisAIExecutionProvider")])
    deaf, other = scan(world, timeout_s=0.05).entries
    assert deaf.problem is not None
    assert "did not obey" in deaf.problem
    assert other.ready
    assert not world.closed.is_set(), "closing now would free what native code still uses"
    world.release.set()
    assert world.closed.wait(30)
    assert world.journal[-2:] == ["QNNExecutionProvider closed", "catalog closed"]


def test_a_failing_operation_is_told_with_its_code_and_closed() -> None:
    world = World([Spec(state=EpReadyState.NotReady, ending="fails")])
    problem = only_entry(scan(world)).problem
    assert problem is not None
    assert problem.startswith("QNNExecutionProvider: could not be made ready: ")
    assert problem.endswith("(0x80004005)")
    assert world.journal[1:] == ["QNNExecutionProvider closed", "catalog closed"]


def test_an_operation_that_cannot_start_is_told() -> None:
    refused = HresultError("Element not found.", 0x80070490)
    world = World([Spec(state=EpReadyState.NotReady, start_error=refused)])
    assert only_entry(scan(world)).problem == (
        "QNNExecutionProvider: could not be made ready: Element not found (0x80070490)"
    )


def test_success_that_leaves_the_provider_unready_is_not_believed() -> None:
    world = World([Spec(state=EpReadyState.NotReady, ending="lies")])
    entry = only_entry(scan(world))
    assert not entry.ready
    assert entry.problem == "QNNExecutionProvider: reported success, and its state is NotReady"


def test_a_ready_provider_without_a_library_is_not_ready_for_us() -> None:
    entry = only_entry(scan(World([Spec(path="")])))
    assert not entry.ready
    assert entry.library_path is None
    assert entry.problem is not None
    assert "names no library" in entry.problem


@pytest.mark.parametrize("attribute", ["name", "version", "package_family_name", "library_path", "ready_state"])
@pytest.mark.parametrize(
    "error",
    [OSError("exception: access violation reading 0x10"), ValueError("7 is not a valid EpReadyState")],
    ids=["native", "enum"],
)
def test_a_provider_that_breaks_while_it_is_read_does_not_hide_the_others(attribute: str, error: Exception) -> None:
    world = World([Spec(broken={attribute: error}), Spec(name="VitisAIExecutionProvider")])
    broken, other = scan(world).entries
    assert not broken.ready
    assert broken.library_path is None
    assert broken.problem is not None
    assert str(error) in broken.problem
    assert other.ready
    if attribute == "name":
        assert broken.ep_name is None
        assert broken.problem.startswith("provider 1 of 2 in the catalog: ")
    else:
        assert broken.problem.startswith("QNNExecutionProvider: ")


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "The system cannot find the file specified"),
        HresultError("Class not registered", 0x80040154),
        PermissionError(13, "Access is denied"),
    ],
)
@pytest.mark.parametrize("where", ["open", "list"])
def test_a_catalog_that_stays_shut_is_one_problem_that_says_what_to_install(where: str, error: OSError) -> None:
    world = World([Spec()])
    if where == "open":
        world.open_error = error
    else:
        world.list_error = error
    result = scan(world)
    assert result.entries == ()
    assert result.problem is not None
    assert str(error.strerror) in result.problem
    assert "Windows App SDK runtime" in result.problem
    assert world.closed.is_set() == (where == "list"), "what was opened is closed"


def test_what_on_progress_raises_is_raised_after_the_work_was_stopped() -> None:
    def on_progress(name: str, fraction: float) -> None:
        raise KeyError(name)

    world = World([Spec(state=EpReadyState.NotReady, progress=(10.0,), ending="hangs")])
    with pytest.raises(KeyError, match="QNNExecutionProvider"):
        scan(world, on_progress=on_progress)
    assert world.journal[1:] == ["QNNExecutionProvider cancelled", "QNNExecutionProvider closed", "catalog closed"]


@pytest.mark.skipif(sys.platform == "win32", reason="what a system other than Windows says")
def test_elsewhere_than_on_windows_the_problem_says_so_and_names_an_alternative() -> None:
    result = catalog_libraries(allow_download=True, timeout_s=1)
    assert result.entries == ()
    assert result.problem is not None
    assert "Windows only" in result.problem
    assert "pytest-winml[qnn]" in result.problem


def test_without_the_package_the_problem_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "windowsml", None)
    with pytest.raises(windowsml._RefusedError, match=r"pytest-winml\[windowsml\]"):
        windowsml._import_binding("win32")


def test_a_dll_that_does_not_load_at_import_is_a_reason_and_not_a_crash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "windowsml.py").write_text("raise FileNotFoundError('Could not find module X.dll')", encoding="utf-8")
    monkeypatch.delitem(sys.modules, "windowsml", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(windowsml._RefusedError, match="cannot be loaded: Could not find module X") as caught:
        windowsml._import_binding("win32")
    assert caught.value.native, "so that the advice about the runtime is added"


# The fake enforces what the real binding punishes with a crash; these see it do so.


def test_the_fake_refuses_a_handle_after_its_catalog_closed() -> None:
    catalog = World([Spec()]).module().EpCatalog()
    (provider,) = catalog.find_all_providers()
    catalog.close()
    with pytest.raises(AssertionError, match="after the catalog closed"):
        _ = provider.library_path


def test_the_fake_refuses_to_close_a_catalog_under_an_operation() -> None:
    world = World([Spec(state=EpReadyState.NotReady, ending="deaf")])
    catalog = world.module().EpCatalog()
    catalog.find_all_providers()[0].ensure_ready_async()
    with pytest.raises(AssertionError, match="under an operation"):
        catalog.close()
    world.release.set()


# The fake against the record, the record against the real package.


def signatures_of_module(module: ModuleType) -> dict[str, Any]:
    """The shape of the record, by `inspect` instead of `ast`."""
    found: dict[str, Any] = {}
    for class_name, names in USED.items():
        cls = getattr(module, class_name)
        if not names:
            found[class_name] = {"members": {member.name: member.value for member in cls}}
            continue
        attributes = {name: inspect.getattr_static(cls, name) for name in names}
        found[class_name] = {
            "methods": {
                name: [
                    {"name": p.name, "kind": p.kind.name, "optional": p.default is not p.empty}
                    for p in inspect.signature(attribute).parameters.values()
                ]
                for name, attribute in attributes.items()
                if not isinstance(attribute, property)
            },
            "properties": [name for name, attribute in attributes.items() if isinstance(attribute, property)],
        }
    return found


def test_the_fake_has_the_signatures_of_the_recorded_wheel() -> None:
    assert signatures_of_module(fake_windowsml) == RECORD["classes"]


def test_the_installed_package_has_the_recorded_signatures() -> None:
    """By its sources, so that it also runs where the package is there and its DLL does not load (Wine)."""
    try:
        distribution = metadata.distribution("windowsml")
    except metadata.PackageNotFoundError:
        pytest.skip("windowsml is not installed: it has wheels for Windows only")
    files = [file for file in distribution.files or () if file.parent.name == "windowsml" and file.suffix == ".py"]
    assert signatures_of_sources(file.read_text(encoding="utf-8") for file in files) == RECORD["classes"]


def test_the_imported_package_has_the_recorded_signatures() -> None:
    try:
        module = importlib.import_module("windowsml")
    except (ImportError, OSError) as error:
        pytest.skip(f"windowsml cannot be imported here: {error}")
    assert signatures_of_module(module) == RECORD["classes"]


def test_the_recorder_reads_kinds_defaults_properties_and_members(tmp_path: Path) -> None:
    def body(name: str) -> str:
        lines = [f"class {name}:"]
        for used in USED[name]:
            lines += [f"    def {used}(self, a, /, b, *c, d, e=1, **f): pass"]
        return "\n".join(lines)

    source = "\n".join(
        [*(body(name) for name in ("EpCatalog", "ExecutionProvider", "AsyncOperation")), "class EpReadyState:\n  X = 4"]
    )
    wheel = tmp_path / "windowsml-9.whl"
    write_wheel(wheel, {"windowsml-9.data/purelib/windowsml/__init__.py": source})
    record = record_of_wheel(wheel)
    assert record["version"] == "9"
    assert record["classes"]["EpReadyState"] == {"members": {"X": 4}}
    assert [(p["name"], p["kind"], p["optional"]) for p in record["classes"]["EpCatalog"]["methods"]["close"]] == [
        ("self", "POSITIONAL_ONLY", False),
        ("a", "POSITIONAL_ONLY", False),
        ("b", "POSITIONAL_OR_KEYWORD", False),
        ("c", "VAR_POSITIONAL", False),
        ("d", "KEYWORD_ONLY", False),
        ("e", "KEYWORD_ONLY", True),
        ("f", "VAR_KEYWORD", False),
    ]


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("class EpCatalog: pass", "no class AsyncOperation, EpReadyState, ExecutionProvider"),
        ("\n".join(f"class {name}: pass" for name in USED), "windowsml.EpCatalog has no __init__, close"),
    ],
)
def test_the_recorder_names_what_a_new_wheel_dropped(source: str, complaint: str) -> None:
    with pytest.raises(LookupError, match=complaint):
        signatures_of_sources([source])


def write_wheel(path: Path, files: dict[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr("windowsml-9.dist-info/METADATA", "Metadata-Version: 2.1\nName: windowsml\nVersion: 9\n")
