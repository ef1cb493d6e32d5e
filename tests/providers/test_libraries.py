from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_winml.providers.host import Host
from pytest_winml.providers.libraries import PLUGIN_WHEELS, LibrarySearch, find_libraries, provider_name, wheel_for
from pytest_winml.providers.windowsml import CatalogEntry, CatalogScan
from pytest_winml.records.target import EP_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOWS = Host(system="windows", architecture="x64")
LINUX = Host(system="linux", architecture="x64")
ANSWERS = "def get_library_path():\n    return {path!r}\n"


def entry(name: str | None, *, version: str | None = "1.2.3", problem: str | None = None) -> CatalogEntry:
    return CatalogEntry(
        ep_name=name,
        version=version,
        library_path=None if problem else f"C:\\catalog\\{name}.dll",
        package_family_name=None,
        ready=problem is None,
        problem=problem,
    )


class FakeCatalog:
    def __init__(self, *entries: CatalogEntry, problem: str | None = None) -> None:
        self.scan = CatalogScan(entries=entries, problem=problem)
        self.asked: list[tuple[bool, float]] = []

    def __call__(self, *, allow_download: bool, timeout_s: float) -> CatalogScan:
        self.asked.append((allow_download, timeout_s))
        return self.scan


class Site:
    """A folder on sys.path that holds the plugin wheels of this test, and no others are seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, ep: str, code: str, version: str = "2.7.0") -> None:
        wheel = wheel_for(ep)
        assert wheel is not None
        (self.folder / f"{wheel.module}.py").write_text(code, encoding="utf-8")
        info = self.folder / f"{wheel.distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {wheel.distribution}\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    folder = tmp_path / "site"
    folder.mkdir()
    for wheel in PLUGIN_WHEELS:
        monkeypatch.delitem(sys.modules, wheel.module, raising=False)
        # What the test imports is taken out again, and what was there comes back.
        monkeypatch.setitem(sys.modules, wheel.module, None)
        monkeypatch.delitem(sys.modules, wheel.module)
    elsewhere = [
        entry for entry in sys.path if not any((Path(entry) / wheel.module).exists() for wheel in PLUGIN_WHEELS)
    ]
    monkeypatch.setattr(sys, "path", [str(folder), *elsewhere])
    return Site(folder)


def search(
    user: Mapping[str, str] | None = None, *, catalog: FakeCatalog | None = None, host: Host = WINDOWS
) -> LibrarySearch:
    return find_libraries(user or {}, catalog=catalog or FakeCatalog(), host=host)


def test_nothing_installed_is_nothing_found_and_nothing_to_note(site: Site) -> None:
    assert search() == LibrarySearch(libraries=(), notes=())


def test_a_wheel_tells_its_library_and_its_version(site: Site, tmp_path: Path) -> None:
    site.install("qnn", ANSWERS.format(path=str(tmp_path / "qnn.so")))
    (found,) = search().libraries
    assert (found.ep, found.path, found.origin, found.version) == ("qnn", str(tmp_path / "qnn.so"), "wheel", "2.7.0")


def test_the_user_comes_before_the_wheel_and_the_wheel_before_the_catalog(site: Site, tmp_path: Path) -> None:
    site.install("qnn", ANSWERS.format(path="wheel.so"))
    site.install("openvino", ANSWERS.format(path="wheel.so"))
    catalog = FakeCatalog(*(entry(EP_BY_NAME[ep].provider) for ep in ("qnn", "openvino", "vitisai")))
    result = search({"qnn": str(tmp_path / "mine.so")}, catalog=catalog)
    best = {ep: result.best(ep) for ep in ("qnn", "openvino", "vitisai", "dml")}
    assert {ep: found and found.origin for ep, found in best.items()} == {
        "qnn": "user", "openvino": "wheel", "vitisai": "windowsml", "dml": None,
    }  # fmt: skip
    assert [library.origin for library in result.libraries if library.ep == "qnn"] == ["user", "wheel", "windowsml"]


def test_paths_are_absolute_whatever_was_given(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    site.install("openvino", ANSWERS.format(path="wheel.so"))
    paths = {library.ep: library.path for library in search({"qnn": "mine.so"}).libraries}
    assert paths == {"qnn": str(tmp_path / "mine.so"), "openvino": str(tmp_path / "wheel.so")}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise OSError('libcdsprpc.so: not found')", "libcdsprpc.so: not found"),
        ("def get_library_path():\n    raise RuntimeError('unsupported platform')\n", "unsupported platform"),
        ("", "get_library_path"),
    ],
)
def test_a_wheel_that_does_not_answer_becomes_a_note_and_the_next_source_counts(
    site: Site, code: str, told: str
) -> None:
    site.install("qnn", code)
    result = search(catalog=FakeCatalog(entry("QNNExecutionProvider")))
    (note,) = result.notes
    assert note.startswith("onnxruntime-qnn 2.7.0 does not tell its library: ")
    assert told in note
    best = result.best("qnn")
    assert best is not None
    assert best.origin == "windowsml"


def test_a_catalog_that_stays_shut_becomes_a_note_and_the_wheel_counts(site: Site) -> None:
    site.install("qnn", ANSWERS.format(path="wheel.so"))
    result = search(catalog=FakeCatalog(problem="the catalog cannot be opened"))
    assert result.notes == ("the catalog cannot be opened",)
    assert [library.ep for library in result.libraries] == ["qnn"]


def test_an_ep_of_the_catalog_that_has_no_target_is_left_out_without_a_word(site: Site) -> None:
    foreign = entry("MIGraphXExecutionProvider")
    broken = entry("NvTensorRTRTXExecutionProvider", problem="not installed")
    assert search(catalog=FakeCatalog(foreign, broken)) == LibrarySearch(libraries=(), notes=())


def test_an_ep_of_the_catalog_that_is_not_ready_is_a_note_that_names_it_once(site: Site) -> None:
    problem = "QNNExecutionProvider: not installed on this machine"
    result = search(catalog=FakeCatalog(entry("QNNExecutionProvider", version=None, problem=problem)))
    assert result == LibrarySearch(libraries=(), notes=(f"Windows ML catalog: {problem}",))


def test_an_entry_that_cannot_even_say_its_name_is_still_noted(site: Site) -> None:
    nameless = entry(None, problem="provider 2 of 3 in the catalog: its name cannot be read")
    (note,) = search(catalog=FakeCatalog(nameless)).notes
    assert "provider 2 of 3" in note


def test_the_catalog_is_asked_with_the_users_choice_and_only_on_windows(site: Site) -> None:
    catalog = FakeCatalog(entry("QNNExecutionProvider"))
    find_libraries({}, allow_download=True, timeout_s=7.0, catalog=catalog, host=WINDOWS)
    assert catalog.asked == [(True, 7.0)]
    assert find_libraries({}, catalog=catalog, host=LINUX).libraries == ()
    assert len(catalog.asked) == 1


def test_nothing_is_downloaded_unless_it_is_allowed(site: Site) -> None:
    catalog = FakeCatalog()
    find_libraries({}, catalog=catalog, host=WINDOWS)
    assert [allowed for allowed, _ in catalog.asked] == [False]


def test_every_wheel_belongs_to_an_ep_that_has_targets() -> None:
    for wheel in PLUGIN_WHEELS:
        assert wheel_for(wheel.ep) == wheel
        assert provider_name(wheel.ep) == EP_BY_NAME[wheel.ep].provider
    assert wheel_for("cpu") is None
