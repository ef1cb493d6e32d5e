from __future__ import annotations

import pytest

from pytest_winml.execute.exit_status import advice, describe


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (-11, "SIGSEGV (segmentation fault)"),
        (-6, "SIGABRT (abort)"),
        (-9, "SIGKILL (killed)"),
        (-4, "SIGILL (illegal instruction)"),
        (-64, "signal 64"),
        (0, "exit code 0"),
        (1, "exit code 1"),
        (3, "exit code 3"),
        (127, "exit code 127"),
        (139, "exit code 139 (as a shell reports SIGSEGV (segmentation fault))"),
        (255, "exit code 255"),
    ],
)
def test_signals_and_plain_codes_are_told_in_words(status: int, words: str) -> None:
    described = describe(status)
    assert described == words or (status == -64 and described == "SIGRTMAX")


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (0xC0000005, "STATUS_ACCESS_VIOLATION (access violation)"),
        (0xC0000135, "STATUS_DLL_NOT_FOUND (DLL not found)"),
        (0xC0000142, "STATUS_DLL_INIT_FAILED (DLL initialisation failed)"),
        (0xC0000409, "STATUS_STACK_BUFFER_OVERRUN (stack buffer overrun, fast fail or abort)"),
        (0xC000001D, "STATUS_ILLEGAL_INSTRUCTION (illegal instruction)"),
        (0xC00000FD, "STATUS_STACK_OVERFLOW (stack overflow)"),
        (0xC0000374, "STATUS_HEAP_CORRUPTION (heap corruption)"),
        (0xC000013A, "STATUS_CONTROL_C_EXIT (Ctrl-C)"),
        (0x80000003, "STATUS_BREAKPOINT (breakpoint or failed assertion)"),
        (0xE06D7363, "C++ exception (unhandled C++ exception)"),
        (0xC0009999, "(a Windows status without a known name)"),
    ],
)
def test_an_ntstatus_is_named_whether_it_comes_signed_or_unsigned(status: int, name: str) -> None:
    assert describe(status) == f"0x{status:08X} {name}"
    assert describe(status - 2**32) == describe(status)


def test_a_known_cause_comes_with_advice_in_both_forms() -> None:
    missing = advice(0xC0000135)
    assert missing is not None
    assert "DLL" in missing
    assert advice(0xC0000135 - 2**32) == missing
    assert "memory" in (advice(-9) or "")


def test_there_is_no_advice_where_the_cause_is_not_known() -> None:
    assert advice(-11) is None
    assert advice(1) is None
    assert advice(9) is None
