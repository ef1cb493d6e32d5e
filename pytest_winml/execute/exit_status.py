"""What the exit status of a child process means, in words."""

from __future__ import annotations

import signal

_SIGNALS = {
    1: ("SIGHUP", "hangup"),
    2: ("SIGINT", "interrupt"),
    3: ("SIGQUIT", "quit"),
    4: ("SIGILL", "illegal instruction"),
    5: ("SIGTRAP", "trap"),
    6: ("SIGABRT", "abort"),
    8: ("SIGFPE", "arithmetic error"),
    9: ("SIGKILL", "killed"),
    11: ("SIGSEGV", "segmentation fault"),
    13: ("SIGPIPE", "broken pipe"),
    14: ("SIGALRM", "alarm"),
    15: ("SIGTERM", "terminated"),
}
_NTSTATUS = {
    0x40000015: ("STATUS_FATAL_APP_EXIT", "the application ended itself"),
    0x40010004: ("DBG_TERMINATE_PROCESS", "terminated by a debugger"),
    0x80000001: ("STATUS_GUARD_PAGE_VIOLATION", "guard page violation"),
    0x80000002: ("STATUS_DATATYPE_MISALIGNMENT", "misaligned data"),
    0x80000003: ("STATUS_BREAKPOINT", "breakpoint or failed assertion"),
    0xC0000005: ("STATUS_ACCESS_VIOLATION", "access violation"),
    0xC0000006: ("STATUS_IN_PAGE_ERROR", "a page could not be read from disk"),
    0xC0000008: ("STATUS_INVALID_HANDLE", "invalid handle"),
    0xC0000017: ("STATUS_NO_MEMORY", "out of memory"),
    0xC000001D: ("STATUS_ILLEGAL_INSTRUCTION", "illegal instruction"),
    0xC0000025: ("STATUS_NONCONTINUABLE_EXCEPTION", "exception that cannot be continued"),
    0xC0000026: ("STATUS_INVALID_DISPOSITION", "invalid exception disposition"),
    0xC000007B: ("STATUS_INVALID_IMAGE_FORMAT", "a DLL for another architecture"),
    0xC000008C: ("STATUS_ARRAY_BOUNDS_EXCEEDED", "array bounds exceeded"),
    0xC000008E: ("STATUS_FLOAT_DIVIDE_BY_ZERO", "floating-point division by zero"),
    0xC0000090: ("STATUS_FLOAT_INVALID_OPERATION", "invalid floating-point operation"),
    0xC0000094: ("STATUS_INTEGER_DIVIDE_BY_ZERO", "integer division by zero"),
    0xC0000096: ("STATUS_PRIVILEGED_INSTRUCTION", "privileged instruction"),
    0xC000009A: ("STATUS_INSUFFICIENT_RESOURCES", "insufficient system resources"),
    0xC00000FD: ("STATUS_STACK_OVERFLOW", "stack overflow"),
    0xC000012D: ("STATUS_COMMITMENT_LIMIT", "out of memory and paging file"),
    0xC0000135: ("STATUS_DLL_NOT_FOUND", "DLL not found"),
    0xC0000138: ("STATUS_ORDINAL_NOT_FOUND", "a DLL lacks an expected ordinal"),
    0xC0000139: ("STATUS_ENTRYPOINT_NOT_FOUND", "a DLL lacks an expected function"),
    0xC000013A: ("STATUS_CONTROL_C_EXIT", "Ctrl-C"),
    0xC0000142: ("STATUS_DLL_INIT_FAILED", "DLL initialisation failed"),
    0xC0000194: ("STATUS_POSSIBLE_DEADLOCK", "possible deadlock"),
    0xC0000374: ("STATUS_HEAP_CORRUPTION", "heap corruption"),
    0xC0000409: ("STATUS_STACK_BUFFER_OVERRUN", "stack buffer overrun, fast fail or abort"),
    0xC0000417: ("STATUS_INVALID_CRUNTIME_PARAMETER", "invalid argument to the C runtime"),
    0xC0000420: ("STATUS_ASSERTION_FAILURE", "failed assertion"),
    0xC0000428: ("STATUS_INVALID_IMAGE_HASH", "a DLL has no valid signature"),
    0xC0000602: ("STATUS_FAIL_FAST_EXCEPTION", "fail fast"),
    0xC06D007E: ("VcppException ERROR_MOD_NOT_FOUND", "a delay-loaded DLL was not found"),
    0xC06D007F: ("VcppException ERROR_PROC_NOT_FOUND", "a delay-loaded DLL lacks a function"),
    0xE0434352: ("CLR exception", "unhandled .NET exception"),
    0xE06D7363: ("C++ exception", "unhandled C++ exception"),
}
_MISSING_DLL = "a DLL that native code needs is missing or of another version: reinstall the provider's package."
_WRONG_CPU = "the library was built for a processor with more instructions than this one has."
_NO_MEMORY = "the machine may have run out of memory: use a smaller model or batch, or close other programs."
_ADVICE = {
    -4: _WRONG_CPU,
    -9: _NO_MEMORY,
    0xC000001D: _WRONG_CPU,
    0xC0000017: _NO_MEMORY,
    0xC000007B: "an x64 and an arm64 package were mixed: install the package for this Python's architecture.",
    0xC000012D: _NO_MEMORY,
    0xC0000135: _MISSING_DLL,
    0xC0000138: _MISSING_DLL,
    0xC0000139: _MISSING_DLL,
    0xC0000142: _MISSING_DLL,
    0xC06D007E: _MISSING_DLL,
    0xC06D007F: _MISSING_DLL,
}
_LAST_SIGNAL = 64
_SHELL_BASE = 128
_UNSIGNED_32_BIT = 0xFFFFFFFF
_FIRST_NTSTATUS = 0x40000000


def describe(status: int) -> str:
    """`SIGSEGV (segmentation fault)`, `0xC0000005 STATUS_ACCESS_VIOLATION (access violation)`, `exit code 3`.

    Both systems' numbers are understood everywhere, for a report may be read on another machine than the one that
    wrote it. Signals are the small negative numbers of `subprocess`; an NTSTATUS may come signed or unsigned.
    """
    if -_LAST_SIGNAL <= status < 0:
        return _signal(-status)
    code = status & _UNSIGNED_32_BIT
    if code >= _FIRST_NTSTATUS:
        return _ntstatus(code)
    if _SHELL_BASE < status <= _SHELL_BASE + _LAST_SIGNAL and status - _SHELL_BASE in _SIGNALS:
        return f"exit code {status} (as a shell reports {_signal(status - _SHELL_BASE)})"
    return f"exit code {status}"


def advice(status: int) -> str | None:
    """What to do about a status whose usual cause is known."""
    return _ADVICE.get(status if -_LAST_SIGNAL <= status < 0 else status & _UNSIGNED_32_BIT)


def _signal(number: int) -> str:
    if number in _SIGNALS:
        name, meaning = _SIGNALS[number]
        return f"{name} ({meaning})"
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _ntstatus(code: int) -> str:
    if code not in _NTSTATUS:
        return f"0x{code:08X} (a Windows status without a known name)"
    name, meaning = _NTSTATUS[code]
    return f"0x{code:08X} {name} ({meaning})"
