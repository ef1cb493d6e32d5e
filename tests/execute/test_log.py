from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_winml.execute import log
from pytest_winml.execute.log import decode_mixed, redact, strip_ansi

# Logs hold no control characters but these; a byte order mark at the start is no text either.
_LAYOUT = "\t\n\r\x1b"
_TEXT = st.text(st.one_of(st.characters(exclude_categories=["C"]), st.sampled_from(_LAYOUT)))
_ALPHABETS = st.one_of(
    st.characters(min_codepoint=0x20, max_codepoint=0x7E),
    st.sampled_from("\n\t"),
    st.sampled_from("äöüßéèñçÅØ"),
    st.sampled_from("абвгдежзийклмнопрстуфхцчшщ"),
    st.sampled_from("αβγδεζηθικλμνξοπρστυφχψω"),
)
_WESTERN = st.text(_ALPHABETS, min_size=4)
_LINE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=4, max_size=60)
_CJK = st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), min_size=1, max_size=8)


class TestDecodeMixed:
    @given(st.binary())
    def test_never_raises(self, data: bytes) -> None:
        assert isinstance(decode_mixed(data), str)

    @given(
        st.lists(st.one_of(st.binary(max_size=9), _LINE.map(str.encode), _LINE.map(lambda t: t.encode("utf-16-le"))))
    )
    def test_never_raises_on_fragments_of_all_kinds(self, fragments: list[bytes]) -> None:
        assert isinstance(decode_mixed(b"".join(fragments)), str)

    @given(_TEXT)
    def test_leaves_utf_8_unchanged(self, text: str) -> None:
        assert decode_mixed(text.encode()) == text

    @given(_WESTERN)
    def test_recovers_utf_16(self, text: str) -> None:
        assert decode_mixed(text.encode("utf-16-le")) == text

    @given(_LINE, _CJK, _LINE)
    def test_recovers_chinese_inside_a_utf_16_line(self, before: str, chinese: str, after: str) -> None:
        text = f"[W:onnxruntime] {before}{chinese}{after}\n"
        assert decode_mixed(text.encode("utf-16-le")) == text

    @given(st.lists(st.tuples(_LINE, st.booleans()), min_size=1))
    def test_recovers_lines_of_both_encodings_in_any_order(self, lines: list[tuple[str, bool]]) -> None:
        data = b"".join(f"{line}\n".encode("utf-16-le" if wide else "utf-8") for line, wide in lines)
        assert decode_mixed(data) == "".join(f"{line}\n" for line, _ in lines)

    @given(_LINE, st.integers(min_value=0, max_value=8))
    def test_recovers_utf_16_that_was_cut_in_the_middle_of_a_character(self, line: str, cut: int) -> None:
        data = f"{line}\n".encode("utf-16-le")[cut:]
        assert decode_mixed(data) == f"{line}\n"[(cut + 1) // 2 :]

    @pytest.mark.parametrize(
        ("data", "text"),
        [
            (b"", ""),
            ("zoë → ✓ 模型\n".encode(), "zoë → ✓ 模型\n"),
            ("模型 加载失败\n".encode("utf-16-le"), "模型 加载失败\n"),
            ("\ufeffhello\n".encode("utf-16-le"), "hello\n"),
            ("done 🎉 ok\n".encode("utf-16-le"), "done 🎉 ok\n"),
            (b"odd\n" + "wide ünd\n".encode("utf-16-le") + b"end\n", "odd\nwide ünd\nend\n"),
            (b"no line end" + "wide words here".encode("utf-16-le"), "no line endwide words here"),
            (
                "wide words here".encode("utf-16-le") + b"narrow words follow them\n",
                "wide words herenarrow words follow them\n",
            ),
            ("größe\n".encode() + "größe\n".encode("utf-16-le"), "größe\ngröße\n"),
            ("ключ".encode("utf-16-le"), "ключ"),
            (b"caf\xe9\n", "caf\ufffd\n"),
        ],
    )
    def test_reads_the_nasty_cases(self, data: bytes, text: str) -> None:
        assert decode_mixed(data) == text

    def test_reads_a_long_log_at_once(self) -> None:
        line = "2026-11-02 10:00:00.123 [W:onnxruntime:, qnn.cc:12 Größe] node not supported\r\n"
        text = line * 5000
        assert decode_mixed(text.encode("utf-16-le") + text.encode()) == text * 2


class TestStripAnsi:
    @pytest.mark.parametrize(
        ("text", "plain"),
        [
            ("\x1b[1;33mwarning\x1b[m: x", "warning: x"),
            ("\x1b[0;93m2026 [W:onnxruntime]\x1b[0m", "2026 [W:onnxruntime]"),
            ("\x1b]0;title\x07text\x1b]8;;http://a\x1b\\link", "textlink"),
            ("\x1b[2K\x1b(Bok", "ok"),
            ("array[0;1m]", "array[0;1m]"),
        ],
    )
    def test_removes_colours_and_nothing_else(self, text: str, plain: str) -> None:
        assert strip_ansi(text) == plain


class TestRedact:
    @pytest.mark.parametrize(
        ("text", "safe"),
        [
            ("get https://user:pw@host.example:8443/a/b?sig=abc#frag now", "get https://host.example:8443/a/b now"),
            ("https://me:p@ss@host.example/x", "https://host.example/x"),
            ("s3://bucket/key?X-Amz-Signature=1", "s3://bucket/key"),
            ('"url": "https://host/x?q=1"', '"url": "https://host/x"'),
            ("using hf_AbCdEf123456", "using [redacted]"),
            ("using ghp_AbCdEf123456 and github_pat_11AA_bb22", "using [redacted] and [redacted]"),
            ("Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted]"),
            ("AccountName=me;AccountKey=ab+/==;Suffix=core", "AccountName=me;AccountKey=[redacted];Suffix=core"),
            ("SharedAccessSignature=sv=1", "SharedAccessSignature=[redacted]"),
            ("se=2026&sig=a%2Bb&sv=1", "se=2026&sig=[redacted]&sv=1"),
            ("password=hunter2 ok", "password=[redacted] ok"),
            ('{"password": "two words", "n": 1}', '{"password": [redacted], "n": 1}'),
            ("PASSWD: x", "PASSWD: [redacted]"),
            ("HF_TOKEN=abc", "HF_TOKEN=[redacted]"),
            ("id AKIAIOSFODNN7EXAMPLE", "id [redacted]"),
            ("aws_secret_access_key = wJalr/XUtn", "aws_secret_access_key = [redacted]"),
            ("client_secret=x", "client_secret=[redacted]"),
        ],
    )
    def test_hides_secrets(self, text: str, safe: str) -> None:
        assert redact(text) == safe

    @pytest.mark.parametrize(
        "text",
        [
            "eos_token: 2, num_tokens=128, token: 5",
            "design=3 significant: yes",
            "Conv_12: output shape [1, 3, 224, 224], scale=0.02",
            "https://host/path",
            "node /model/layers.0/attn",
            "the bearer of this, a basic operator",
            "",
        ],
    )
    def test_leaves_an_honest_log_alone(self, text: str) -> None:
        assert redact(text) == text

    def test_hides_the_home_directory_and_no_other(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        home = tmp_path / "ann.lee"
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("USERPROFILE", str(home))
        assert redact(f"in {home / 'x'}, '{home}'.") == f"in {Path('~') / 'x'}, '~'."
        assert redact(f"in {home}2 {home}.old /mnt{home}") == f"in {home}2 {home}.old /mnt{home}"

    def test_a_home_at_the_root_hides_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        root = Path.cwd().anchor
        monkeypatch.setenv("HOME", root)
        monkeypatch.setenv("USERPROFILE", root)
        assert redact(f"{root}usr {root}") == f"{root}usr {root}"

    @given(st.text())
    def test_twice_is_once(self, text: str) -> None:
        assert redact(redact(text)) == redact(text)

    @given(st.text(st.sampled_from("abc123_-"), min_size=8, max_size=20), st.sampled_from([" ", "\n", ""]))
    def test_no_password_gets_through(self, secret: str, after: str) -> None:
        secret += "ZQ"
        for text in (f"password={secret}", f"Bearer {secret}", f"https://u:{secret}@h/", f"https://h/?a={secret}"):
            assert secret not in redact(f"see {text}{after}")


class TestReading:
    def test_a_log_that_is_not_there_is_empty(self, tmp_path: Path) -> None:
        missing = tmp_path / "none.log"
        assert log.current_offset(missing) == 0
        assert log.tail(missing) == ""
        assert log.read_slice(missing, 0, 10) == ""

    def test_a_slice_lies_between_two_offsets(self, tmp_path: Path) -> None:
        path = tmp_path / "worker.log"
        path.write_bytes(b"before\n")
        start = log.current_offset(path)
        with path.open("ab") as file:
            file.write("\x1b[1mpassword=x größe\x1b[0m\r\n".encode("utf-16-le"))
        end = log.current_offset(path)
        with path.open("ab") as file:
            file.write(b"after\n")
        assert log.read_slice(path, start, end) == "password=x größe\n"
        assert log.read_slice(path, start) == "password=x größe\nafter\n"

    def test_a_tail_has_whole_lines_within_its_limits(self, tmp_path: Path) -> None:
        path = tmp_path / "worker.log"
        path.write_bytes(b"".join(b"line %d\n" % number for number in range(1000)))
        assert log.tail(path, limit_bytes=20) == "line 998\nline 999"
        assert log.tail(path, limit_lines=3) == "line 997\nline 998\nline 999"
        assert len(log.tail(path).splitlines()) == 40

    def test_a_tail_begins_at_the_offset_and_is_redacted(self, tmp_path: Path) -> None:
        path = tmp_path / "worker.log"
        path.write_bytes(b"old\n\x1b[31mpassword=x\x1b[0m\n")
        assert log.tail(path, start=4) == "password=[redacted]"

    def test_a_tail_cut_inside_utf_16_is_readable(self, tmp_path: Path) -> None:
        path = tmp_path / "worker.log"
        path.write_bytes("a first line that is cut\nthe second line\n".encode("utf-16-le"))
        assert log.tail(path, limit_bytes=51) == "the second line"
