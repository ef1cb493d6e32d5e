"""Taking out of a text what must not leave the machine: secrets, query strings, the user's name in paths."""

from __future__ import annotations

import re
from pathlib import Path

_HIDDEN = "[redacted]"
_URL = re.compile(
    r"""(?P<scheme>\b[a-z][a-z0-9+.\-]+://)
        (?:[^\s/?\#"'<>]*@)?                  # user:password@
        (?P<place>[^\s?\#"'<>]*)
        (?:[?\#][^\s"'<>]*)?                  # ?query and #fragment""",
    re.IGNORECASE | re.VERBOSE,
)
_TOKEN = re.compile(
    r"""\b(?:
        hf_[A-Za-z0-9]{6,}                    # Hugging Face
      | gh[oprsu]_[A-Za-z0-9]{6,}             # GitHub
      | github_pat_\w{6,}
      | glpat-[\w\-]{6,}                      # GitLab
      | xox[abeoprs]-[\w\-]{6,}               # Slack
      | sk-[\w\-]{16,}                        # OpenAI and its likes
      | (?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}   # AWS key ids
      | eyJ[\w\-]+\.[\w\-]+\.[\w\-]*          # JSON web token
    )""",
    re.VERBOSE,
)
_CREDENTIAL = re.compile(
    r"\b(?P<name>Bearer|Authorization[\"']?\s*[:=]\s*[\"']?Basic)\s+(?!tokens?\b)[\w+/=.~\-]{3,}", re.IGNORECASE
)
# `token` alone stands for words in every language model's log, so it counts only with a prefix that means a login.
_ASSIGNMENT = re.compile(
    r"""(?P<name>\b(?:
            [\w\-]*(?:password|passwd|pwd|secret|credential|api[_\-]?key|account[_\-]?key|access[_\-]?key(?!_?id)
                     |private[_\-]?key|shared[_\-]?access[_\-]?signature)
          | (?:[\w\-]*(?:access|auth|api|bearer|id|refresh|sas|session|hf|hub|gh|github|gitlab)[_\-])token
          | sig
        )["']?\s*[=:]\s*)
        (?: "[^"\n]*" | '[^'\n]*' | [^\s;,&"']+ )""",
    re.IGNORECASE | re.VERBOSE,
)


def redact(text: str) -> str:
    """`text` without secrets: URLs keep scheme, host and path; tokens and passwords go; the home directory is `~`."""
    text = _URL.sub(r"\g<scheme>\g<place>", text)
    text = _CREDENTIAL.sub(rf"\g<name> {_HIDDEN}", text)
    text = _ASSIGNMENT.sub(rf"\g<name>{_HIDDEN}", text)
    text = _TOKEN.sub(_HIDDEN, text)
    return _without_home(text)


def _without_home(text: str) -> str:
    try:
        home = Path.home()
    except RuntimeError:  # no user has this process: nothing to hide
        return text
    if home == Path(home.anchor):
        return text
    either_slash = r"[\\/]+".join(re.escape(part) for part in re.split(r"[\\/]+", str(home)))
    flags = re.IGNORECASE if home.drive else re.NOFLAG
    return re.sub(rf"(?<![\w.\-]){either_slash}(?![\w\-]|\.\w)", "~", text, flags=flags)
