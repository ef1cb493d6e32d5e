"""Taking out of a text what must not leave the machine: secrets, query strings, where its folders are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import PurePath

ROOTDIR = "<rootdir>"
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


class Places:
    """Folders of this machine, and the words that stand for them in a text: `<store>/ab/model.onnx`, `~/data.npz`.

    The innermost folder counts. `ROOTDIR` leaves a path relative to its folder. A path is found with either slash,
    doubled ones too, with capitals of any kind where it has a drive, and below a home that is `~` already.
    """

    def __init__(self, named: Iterable[tuple[PurePath, str]] = (), *, home: PurePath | None = None) -> None:
        home = home or _home()
        words: dict[str, str] = {}
        for folder, word in (*named, *([(home, "~")] if home else [])):
            for spelling in _spellings(folder, home):
                words.setdefault(spelling, word)
        self._words = tuple(words[spelling] for spelling in sorted(words, key=len, reverse=True))
        self._pattern = _any_of(sorted(words, key=len, reverse=True))

    def hide(self, text: str) -> str:
        return self._pattern.sub(self._word, text) if self._words else text

    def hide_in(self, value: Any, *, but: frozenset[str] = frozenset()) -> Any:
        """Plain data with every text in it hidden, except below the keys `but`."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, dict):
            return {key: one if key in but else self.hide_in(one, but=but) for key, one in value.items()}
        return [self.hide_in(one, but=but) for one in value] if isinstance(value, list | tuple) else value

    def _word(self, match: re.Match[str]) -> str:
        word = next(word for place, word in enumerate(self._words) if match[f"p{place}"])
        slashes = match["into"] or ""
        return "" if slashes and word == ROOTDIR else word + slashes


def redact(text: str) -> str:
    """`text` without secrets: URLs keep scheme, host and path; tokens and passwords go; the home directory is `~`."""
    text = _URL.sub(r"\g<scheme>\g<place>", text)
    text = _CREDENTIAL.sub(rf"\g<name> {_HIDDEN}", text)
    text = _ASSIGNMENT.sub(rf"\g<name>{_HIDDEN}", text)
    text = _TOKEN.sub(_HIDDEN, text)
    return Places().hide(text)


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # no user has this process: nothing to hide
        return None


def _spellings(folder: PurePath, home: PurePath | None) -> Iterator[str]:
    """The ways a text may name a folder. One at the root of a disk has nothing to hide."""
    for path in (folder, folder.resolve()) if isinstance(folder, Path) else (folder,):
        if path == type(path)(path.anchor):
            continue
        yield str(path)
        if home is not None and path.is_relative_to(home):
            yield "~" if path == home else f"~/{path.relative_to(home)}"


def _any_of(spellings: list[str]) -> re.Pattern[str]:
    """One group per spelling; `into` are the slashes of a path that goes on below it."""
    choices = "|".join(f"(?P<p{place}>{_either_slash(one)})" for place, one in enumerate(spellings))
    return re.compile(rf"(?<![\w.\-])(?:{choices})(?:(?P<into>[\\/]+)(?=[^\s\"'\\/])|(?![\w\-]|\.\w))")


def _either_slash(path: str) -> str:
    slash = r"[\\/]"
    below = path.lstrip("\\/")
    # As many in front as the path has itself: a URL has more of its own before it.
    pattern = slash * (len(path) - len(below))
    pattern += f"{slash}+".join(re.escape(part) for part in re.split(f"{slash}+", below))
    return f"(?i:{pattern})" if re.match(r"[A-Za-z]:", path) else pattern
