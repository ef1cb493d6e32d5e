from __future__ import annotations

import re

import pytest

from pytest_winml import errors
from pytest_winml.errors import UsageProblem, WinmlError, error_class, unknown_name

EVERY_ERROR = sorted(
    (found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, WinmlError)),
    key=lambda found: found.__name__,
)


def drawn() -> dict[str, str | None]:
    """The tree in the module's docstring: each class and its parent."""
    tree: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"^((?:[│├└─ ]{4})*)(\w+)(?:  .*)?$", line):
            depth = len(match[1]) // 4
            path = [*path[:depth], match[2]]
            tree[match[2]] = path[depth - 1] if depth else None
    return tree


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    assert drawn() == {
        found.__name__: None if found is WinmlError else found.__mro__[1].__name__ for found in EVERY_ERROR
    }


def test_an_error_reads_what_happened_what_to_do_and_what_the_log_said() -> None:
    error = WinmlError("it broke", remedy="mend it.", log_tail="first\nlast")
    assert str(error) == "it broke\nTo do: mend it.\nLast lines of the log:\n  | first\n  | last"
    assert (error.message, error.remedy, error.log_tail) == ("it broke", "mend it.", "first\nlast")


def test_an_error_without_a_remedy_or_a_log_is_its_message() -> None:
    assert str(WinmlError("it broke")) == "it broke"
    assert str(WinmlError("it broke", remedy="", log_tail="")) == "it broke"


@pytest.mark.parametrize("kind", EVERY_ERROR, ids=lambda kind: kind.__name__)
def test_an_error_keeps_its_class_through_its_name(kind: type[WinmlError]) -> None:
    assert error_class(kind.__name__) is kind


@pytest.mark.parametrize("name", ["", "OfTomorrow", "get_close_matches", "TYPE_CHECKING", "__doc__", "Iterable"])
def test_a_name_that_is_no_error_of_ours_is_the_root(name: str) -> None:
    assert error_class(name) is WinmlError


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    problem = unknown_name("precision", "w8a61", ("fp32", "w8a16"))
    assert isinstance(problem, UsageProblem)
    assert (problem.message, problem.remedy) == ("unknown precision 'w8a61'", "did you mean 'w8a16'?")


def test_an_unknown_name_like_no_other_is_answered_with_all_in_order() -> None:
    assert unknown_name("precision", "zzz", ["w8a16", "fp32"]).remedy == "known: fp32, w8a16."
