from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.errors import UsageProblem
from pytest_winml.records.identity import (
    FIELD_KINDS,
    IDENTITY_FIELDS,
    FieldDifference,
    MachineIdentity,
    comparable,
    differences,
    ignorable,
    unknown_to_both,
)
from tests.records.samples import MACHINE

OTHER: dict[str, Any] = {
    name: value + 1 if isinstance(value, int | float) else "emulated" if name == "mode" else f"another {value}"
    for name, value in msgspec.structs.asdict(MACHINE).items()
}


def but(**changes: Any) -> MachineIdentity:
    return msgspec.structs.replace(MACHINE, **changes)


def test_every_field_has_its_kind_and_no_kind_is_left_over() -> None:
    assert list(FIELD_KINDS) == [field.name for field in msgspec.structs.fields(MachineIdentity)]


def test_what_the_issue_calls_identity_is_identity() -> None:
    assert {
        "cpu", "soc", "device", "driver_version", "ep", "ep_version", "runtime_package", "runtime_version", "os_build",
        "power_mode", "power_source",
    } <= set(IDENTITY_FIELDS)  # fmt: skip


def test_a_machine_does_not_differ_from_itself() -> None:
    assert differences(MACHINE, MACHINE) == ()
    assert comparable(())


@pytest.mark.parametrize("name", FIELD_KINDS)
def test_a_difference_forbids_comparing_exactly_when_the_field_is_identity(name: str) -> None:
    found = differences(MACHINE, but(**{name: OTHER[name]}))
    assert [(one.name, one.kind, one.before, one.after) for one in found] == [
        (name, FIELD_KINDS[name], getattr(MACHINE, name), OTHER[name])
    ]
    assert comparable(found) is (FIELD_KINDS[name] != "identity")


@pytest.mark.parametrize("name", FIELD_KINDS)
def test_the_digest_tells_apart_what_cannot_be_compared_and_nothing_else(name: str) -> None:
    same = but(**{name: OTHER[name]}).digest == MACHINE.digest
    assert same is (FIELD_KINDS[name] != "identity")


def test_the_digest_stays_what_it_is_in_file_names_of_earlier_runs() -> None:
    assert MACHINE.digest == "930c51cc"


@pytest.mark.parametrize("name", IDENTITY_FIELDS)
def test_what_only_one_side_knows_differs(name: str) -> None:
    assert not comparable(differences(but(**{name: None}), MACHINE))
    assert not comparable(differences(MACHINE, but(**{name: None})))


@pytest.mark.parametrize("name", IDENTITY_FIELDS)
def test_what_neither_side_knows_is_equal_and_named(name: str) -> None:
    unknown = but(**{name: None})
    assert differences(unknown, unknown) == ()
    assert unknown_to_both(unknown, unknown) == (name,)
    assert unknown_to_both(unknown, MACHINE) == ()


def test_an_ignored_difference_allows_comparing_and_stays_on_record() -> None:
    found = differences(MACHINE, but(os_build="Windows 10.0.26200.1"), ignore=["OS-Build"])
    assert comparable(found)
    assert [(one.name, one.ignored) for one in found] == [("os_build", True)]


def test_ignoring_one_field_does_not_forgive_another() -> None:
    found = differences(MACHINE, but(os_build="x", driver_version="y"), ignore=["os_build"])
    assert [one.name for one in found if one.forbids_comparing] == ["driver_version"]


def test_an_unknown_field_to_ignore_is_a_usage_problem_that_suggests_the_nearest() -> None:
    with pytest.raises(UsageProblem, match="unknown identity field 'driver_verison'") as caught:
        differences(MACHINE, MACHINE, ignore=["driver_verison"])
    assert caught.value.remedy == "did you mean 'driver_version'?"


def test_a_field_that_never_forbids_comparing_cannot_be_ignored() -> None:
    with pytest.raises(UsageProblem, match="'python' never makes two machines incomparable"):
        ignorable(["python"])


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("30.0.1", "30.0.2", "driver_version: 30.0.1 before, 30.0.2 now"),
        (None, "30.0.2", "driver_version: unknown before, 30.0.2 now"),
    ],
)
def test_a_difference_reads_as_a_sentence(before: str | None, after: str, text: str) -> None:
    assert str(FieldDifference(name="driver_version", kind="identity", before=before, after=after)) == text


machines = st.builds(
    MachineIdentity,
    cpu=st.sampled_from([None, "a", "b"]),
    logical_cpus=st.sampled_from([None, 2, 4]),
    power_source=st.sampled_from([None, "mains", "battery"]),
    python=st.sampled_from([None, "3.11"]),
    free_memory_bytes=st.integers(0, 3),
)


@given(machines, machines)
def test_comparing_is_symmetric_and_agrees_with_the_digest(a: MachineIdentity, b: MachineIdentity) -> None:
    there, back = differences(a, b), differences(b, a)
    assert comparable(there) == comparable(back) == (a.digest == b.digest)
    assert [(one.name, one.before, one.after) for one in there] == [(one.name, one.after, one.before) for one in back]
    assert not {one.name for one in there} & set(unknown_to_both(a, b))


@given(machines, machines)
def test_ignoring_every_field_makes_any_two_comparable(a: MachineIdentity, b: MachineIdentity) -> None:
    assert comparable(differences(a, b, ignore=IDENTITY_FIELDS))
