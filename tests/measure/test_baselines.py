from __future__ import annotations

import builtins
import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_winml.errors import InfrastructureError, UsageProblem
from pytest_winml.measure.baseline_files import encode, file_name, folder_of
from pytest_winml.measure.baseline_places import LocalFolder, RemoteFolder, place_at
from pytest_winml.measure.baselines import BaselineStore, Found, NoBaseline, NotComparable
from pytest_winml.records.baseline import BASELINE_SCHEMA, Baseline
from tests.platforms import posix_only
from tests.records.samples import BASELINE, MACHINE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

needs_fsspec = pytest.mark.skipif(find_spec("fsspec") is None, reason="needs fsspec: install [test]")
CASE_ID = BASELINE.case_id
START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def saved_after(days: int, *, name: str = "main", case_id: str = CASE_ID, **machine: Any) -> Baseline:
    return msgspec.structs.replace(
        BASELINE,
        name=name,
        created_at=(START + timedelta(days=days)).isoformat(),
        case=msgspec.structs.replace(BASELINE.case, id=case_id),
        machine=msgspec.structs.replace(MACHINE, **machine),
    )


@pytest.fixture(
    params=["folder", "file", pytest.param("local", marks=needs_fsspec), pytest.param("memory", marks=needs_fsspec)]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BaselineStore:
    where: dict[str, Callable[[], str | Path]] = {
        "folder": lambda: tmp_path / "base lines",
        "file": (tmp_path / "baselines").as_uri,
        "local": lambda: f"local://{(tmp_path / 'baselines').as_posix()}",
        "memory": lambda: f"memory://{uuid.uuid4().hex}/baselines",
    }
    return BaselineStore(where[request.param]())


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def put(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def test_nothing_saved_is_a_normal_answer(store: BaselineStore) -> None:
    assert store.lookup("main", CASE_ID, MACHINE) == NoBaseline()
    assert store.find("main", CASE_ID) == ()


def test_what_was_saved_is_found_on_the_same_machine(store: BaselineStore) -> None:
    store.save(BASELINE)
    assert store.lookup("main", CASE_ID, MACHINE) == Found(baseline=BASELINE)


def test_another_name_or_case_is_not_it(store: BaselineStore) -> None:
    store.save(BASELINE)
    assert store.lookup("other", CASE_ID, MACHINE) == NoBaseline()
    assert store.lookup("main", f"{CASE_ID}-2", MACHINE) == NoBaseline()


def test_all_are_found_newest_first_and_the_newest_is_looked_up(store: BaselineStore) -> None:
    days = [2, 0, 3, 1]
    for day in days:
        store.save(saved_after(day))
    assert store.find("main", CASE_ID) == tuple(saved_after(day) for day in (3, 2, 1, 0))
    assert store.lookup("main", CASE_ID, MACHINE) == Found(baseline=saved_after(3))


def test_the_same_identity_wins_over_a_newer_one_of_another(store: BaselineStore) -> None:
    store.save(saved_after(0))
    store.save(saved_after(9, driver_version="newer"))
    assert store.lookup("main", CASE_ID, MACHINE, ignore=["driver_version"]) == Found(baseline=saved_after(0))


def test_noise_and_context_do_not_stand_in_the_way_and_are_told(store: BaselineStore) -> None:
    saved = saved_after(0, battery_percent=3.0, python="3.12.0")
    store.save(saved)
    answer = store.lookup("main", CASE_ID, MACHINE)
    assert isinstance(answer, Found)
    assert answer.baseline == saved
    assert [(one.name, one.kind) for one in answer.differences] == [("python", "context"), ("battery_percent", "noise")]


def test_another_identity_is_not_comparable_and_the_nearest_ones_fields_are_named(store: BaselineStore) -> None:
    store.save(saved_after(5, cpu="other", os_build="other"))
    store.save(saved_after(1, driver_version="30.0.1", python="3.9.0"))
    answer = store.lookup("main", CASE_ID, MACHINE)
    assert isinstance(answer, NotComparable)
    assert answer.nearest == saved_after(1, driver_version="30.0.1", python="3.9.0")
    assert [(one.name, one.before, one.after) for one in answer.differences] == [
        ("driver_version", "30.0.1", MACHINE.driver_version)
    ]


def test_of_two_equally_near_the_newer_is_named(store: BaselineStore) -> None:
    store.save(saved_after(1, driver_version="a"))
    store.save(saved_after(2, driver_version="b"))
    answer = store.lookup("main", CASE_ID, MACHINE)
    assert isinstance(answer, NotComparable)
    assert answer.nearest.machine.driver_version == "b"


def test_a_difference_that_is_ignored_is_found_and_recorded(store: BaselineStore) -> None:
    store.save(saved_after(0, driver_version="a", cpu="other"))
    store.save(saved_after(1, driver_version="b"))
    answer = store.lookup("main", CASE_ID, MACHINE, ignore=["driver-version"])
    assert isinstance(answer, Found)
    assert answer.baseline.machine.driver_version == "b"
    assert [(one.name, one.ignored) for one in answer.differences] == [("driver_version", True)]


def test_ignored_fields_do_not_count_for_what_is_nearest(store: BaselineStore) -> None:
    store.save(saved_after(0, driver_version="a", os_build="a", power_mode="a"))
    store.save(saved_after(1, cpu="a", soc="sm8550"))
    answer = store.lookup("main", CASE_ID, MACHINE, ignore=["driver_version", "os_build"])
    assert isinstance(answer, NotComparable)
    assert [one.name for one in answer.differences] == ["power_mode"]


def test_a_mistyped_field_to_ignore_is_a_usage_problem_also_without_a_baseline(store: BaselineStore) -> None:
    with pytest.raises(UsageProblem, match="'power_sauce'"):
        store.lookup("main", CASE_ID, MACHINE, ignore=["power_sauce"])


def test_what_neither_machine_tells_is_named(store: BaselineStore) -> None:
    silent = msgspec.structs.replace(MACHINE, power_mode=None)
    store.save(saved_after(0, power_mode=None))
    answer = store.lookup("main", CASE_ID, silent)
    assert isinstance(answer, Found)
    assert answer.unknown == ("power_mode",)


def test_a_name_that_is_taken_is_never_written_to(tmp_path: Path) -> None:
    names = iter(["taken", "taken", "free"])
    store = BaselineStore(tmp_path, new_name=lambda _: next(names))
    put(tmp_path / "main", "taken", b"older")
    assert store.save(BASELINE) == "main/free"
    assert (tmp_path / "main" / "taken").read_bytes() == b"older"


@needs_fsspec
def test_a_name_that_is_taken_at_a_url_is_never_written_to() -> None:
    names = iter(["taken", "taken", "free"])
    store = BaselineStore(f"memory://{uuid.uuid4().hex}", new_name=lambda _: next(names))
    store.save(saved_after(0))
    assert store.save(saved_after(1)) == "main/free"
    assert store.load("main", "taken") == saved_after(0)


def test_no_free_name_is_trouble_and_no_loss(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path, new_name=lambda _: "taken")
    store.save(saved_after(0))
    with pytest.raises(InfrastructureError, match="no free file name"):
        store.save(saved_after(1))
    assert store.load("main", "taken") == saved_after(0)


def test_saving_adds_one_file_and_touches_no_other(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path)
    store.save(saved_after(0))
    before = files_below(tmp_path)
    where = store.save(saved_after(0))
    after = files_below(tmp_path)
    assert after.items() >= before.items()
    assert after.keys() - before.keys() == {where}


@pytest.mark.parametrize("name", ["../escape", "..", "/absolute", "C:\\x", "con", "x" * 400, "a/b/../../../c"])
def test_no_name_and_no_case_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    store = BaselineStore(tmp_path / "a" / "b" / "store")
    saved = saved_after(0, name=name, case_id=name)
    store.save(saved)
    assert [path.parent.parent for path in tmp_path.rglob("*.json")] == [tmp_path / "a" / "b" / "store"]
    assert store.lookup(name, name, MACHINE) == Found(baseline=saved)


def test_two_names_that_would_share_a_folder_are_told_apart_by_what_their_files_say(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path)
    shares = folder_of("Main")
    store.save(saved_after(0, name="Main"))
    store.save(saved_after(1, name=shares))
    assert store.find("Main", CASE_ID) == (saved_after(0, name="Main"),)
    assert store.find(shares, CASE_ID) == (saved_after(1, name=shares),)


DAMAGED = {
    "empty": b"",
    "cut short": encode(saved_after(9))[:-400],
    "a merge conflict": b"<<<<<<< ours\n" + encode(saved_after(9)),
    "a later schema": encode(saved_after(9)).replace(
        b'"schema_version": 1', b'"schema_version": %d' % (BASELINE_SCHEMA + 1)
    ),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_named_and_the_next_older_one_counts(tmp_path: Path, content: bytes) -> None:
    store = BaselineStore(tmp_path)
    store.save(saved_after(0))
    damaged = file_name(saved_after(9))
    put(tmp_path / "main", damaged, content)
    answer = store.lookup("main", CASE_ID, MACHINE)
    assert isinstance(answer, Found)
    assert answer.baseline == saved_after(0)
    assert len(answer.notes) == 1
    assert answer.notes[0].startswith(f"main/{damaged} is left out: it ")
    assert store.find("main", CASE_ID) == (saved_after(0),)


def test_only_damaged_files_are_no_baseline_with_a_note(tmp_path: Path) -> None:
    put(tmp_path / "main", file_name(BASELINE), b"{")
    answer = BaselineStore(tmp_path).lookup("main", CASE_ID, MACHINE)
    assert isinstance(answer, NoBaseline)
    assert "is not a baseline" in answer.notes[0]


def test_a_foreign_file_is_named_and_hidden_ones_and_folders_are_not(tmp_path: Path) -> None:
    put(tmp_path / "main", "README.md", b"what this is")
    put(tmp_path / "main", ".gitattributes", b"")
    put(tmp_path / "main" / "folder", "x.json", b"")
    put(tmp_path, "README.md", b"what this is")
    answer = BaselineStore(tmp_path).lookup("main", CASE_ID, MACHINE)
    assert answer == NoBaseline(notes=("main/README.md is left out: its name is not a baseline's",))


def test_damage_of_another_case_is_not_opened(tmp_path: Path) -> None:
    put(tmp_path / "main", file_name(saved_after(0, case_id="another")), b"{")
    assert BaselineStore(tmp_path).lookup("main", CASE_ID, MACHINE) == NoBaseline()


def test_a_renamed_file_counts_for_what_it_says(tmp_path: Path) -> None:
    """By hand, or by a version that took another field into the digest."""
    put(tmp_path / "main", file_name(saved_after(0, cpu="other")), encode(saved_after(0)))
    assert BaselineStore(tmp_path).lookup("main", CASE_ID, MACHINE) == Found(baseline=saved_after(0))
    put(tmp_path / "main", file_name(saved_after(1)), encode(saved_after(1, cpu="other")))
    assert BaselineStore(tmp_path).lookup("main", CASE_ID, MACHINE) == Found(baseline=saved_after(0))


def test_one_file_for_each_machine_is_opened_and_not_one_for_each_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BaselineStore(tmp_path)
    for day in range(10):
        store.save(saved_after(day, cpu="one"))
        store.save(saved_after(day, cpu="two"))
    opened: list[str] = []
    real = LocalFolder.read

    def read(self: LocalFolder, folder: str, name: str) -> bytes:
        opened.append(name)
        return real(self, folder, name)

    monkeypatch.setattr(LocalFolder, "read", read)
    assert isinstance(store.lookup("main", CASE_ID, MACHINE), NotComparable)
    assert len(opened) == 2


def test_a_file_too_large_for_a_baseline_is_not_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_winml.measure.baselines.MOST_BYTES", 100)
    BaselineStore(tmp_path).save(BASELINE)
    answer = BaselineStore(tmp_path).lookup("main", CASE_ID, MACHINE)
    assert "too large for a baseline" in answer.notes[0]


@posix_only
def test_a_link_to_something_endless_is_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "main"
    folder.mkdir()
    (folder / file_name(saved_after(0))).symlink_to("/dev/zero")
    if sys.platform != "win32":
        os.mkfifo(folder / file_name(saved_after(1)))
    (folder / file_name(saved_after(2))).symlink_to(folder / "nowhere")
    answer = BaselineStore(tmp_path).lookup("main", CASE_ID, MACHINE)
    assert isinstance(answer, NoBaseline)
    assert ["not a regular file" in note for note in answer.notes] == [True] * 3


def test_a_folder_that_cannot_be_listed_is_trouble_and_not_a_missing_baseline(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"a file")
    with pytest.raises(InfrastructureError, match=r"cannot be listed|which is a file"):
        BaselineStore(tmp_path / "store").lookup("main", CASE_ID, MACHINE)


def test_a_folder_that_cannot_be_written_is_trouble(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"a file")
    with pytest.raises(InfrastructureError, match="cannot be written"):
        BaselineStore(tmp_path / "store").save(BASELINE)


SAVER = f"""
import sys
sys.path[:] = {sys.path!r}
from pytest_winml.measure.baselines import BaselineStore
from tests.measure.test_baselines import saved_after
store = BaselineStore(sys.argv[1])
for _ in range(20):
    store.save(saved_after(0))
"""


@pytest.mark.parametrize("kind", ["folder", pytest.param("url", marks=needs_fsspec)])
def test_two_processes_that_save_at_once_lose_nothing(tmp_path: Path, kind: str) -> None:
    where = str(tmp_path / "store") if kind == "folder" else f"local://{(tmp_path / 'store').as_posix()}"
    savers = [subprocess.Popen([sys.executable, "-c", SAVER, where]) for _ in range(2)]
    assert [saver.wait(timeout=120) for saver in savers] == [0, 0]
    assert len(BaselineStore(where).find("main", CASE_ID)) == 40


def test_a_url_without_fsspec_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("fsspec"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageProblem, match=r"memory://baselines need fsspec") as caught:
        BaselineStore("memory://baselines")
    assert "pip install fsspec" in str(caught.value.remedy)


def test_a_folder_and_a_file_url_need_no_fsspec(tmp_path: Path) -> None:
    for location in (tmp_path, str(tmp_path), tmp_path.as_uri()):
        assert isinstance(place_at(location), LocalFolder)


@needs_fsspec
@pytest.mark.parametrize("url", ["nonsense://place", "nonsense://user:pw@place?sig=abc"])
def test_a_scheme_that_nobody_knows_is_a_usage_problem(url: str) -> None:
    with pytest.raises(UsageProblem, match="nonsense://place") as caught:
        BaselineStore(url)
    assert "pw" not in str(caught.value)
    assert "abc" not in str(caught.value)


@needs_fsspec
def test_trouble_on_the_way_is_trouble_and_tells_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    place = RemoteFolder(f"memory://{uuid.uuid4().hex}")

    class Offline:
        def __getattr__(self, name: str) -> Any:
            def fail(*_: Any, **__: Any) -> None:
                raise RuntimeError("no route to https://user:hunter2@host/bucket?sig=s3cret")

            return fail

    monkeypatch.setattr(place, "_files", Offline())
    monkeypatch.setattr("pytest_winml.measure.baselines.place_at", lambda _: place)
    store = BaselineStore("memory://x")
    for act in (lambda: store.save(BASELINE), lambda: store.lookup("main", CASE_ID, MACHINE)):
        with pytest.raises(InfrastructureError, match="no route to https://host/bucket") as caught:
            act()
        assert "hunter2" not in str(caught.value)
        assert "s3cret" not in str(caught.value)


@needs_fsspec
def test_a_file_that_vanishes_between_listing_and_reading_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    store = BaselineStore(f"memory://{uuid.uuid4().hex}")
    gone = file_name(BASELINE)
    monkeypatch.setattr(RemoteFolder, "names", lambda *_: [gone])
    answer = store.lookup("main", CASE_ID, MACHINE)
    assert isinstance(answer, NoBaseline)
    assert f"main/{gone} is left out: it cannot be read" in answer.notes[0]


@needs_fsspec
def test_a_file_system_that_knows_no_exclusive_creation_overwrites_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    real = MemoryFileSystem.pipe_file

    def old(self: Any, path: str, value: bytes) -> None:
        real(self, path, value)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", old)
    place = RemoteFolder(f"memory://{uuid.uuid4().hex}")
    place.create("main", "x", b"first")
    with pytest.raises(FileExistsError):
        place.create("main", "x", b"second")
    assert place.read("main", "x") == b"first"
