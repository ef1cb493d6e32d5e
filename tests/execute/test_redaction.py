"""Folders of this machine do not leave it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from pytest_winml.execute.redaction import ROOTDIR, Places
from tests.platforms import wine_breaks

ON_WINDOWS = Places(
    [
        (PureWindowsPath(r"C:\Work\Proj"), ROOTDIR),
        (PureWindowsPath(r"C:\Work\Proj\kept"), "<store>"),
        (PureWindowsPath(r"C:\Users\ann\AppData\Local\Temp\winml-1"), "<scratch>"),
    ],
    home=PureWindowsPath(r"C:\Users\ann"),
)
ON_LINUX = Places(
    [
        (PurePosixPath("/srv/proj"), ROOTDIR),
        (PurePosixPath("/home/ann/.cache/store"), "<store>"),
        (PurePosixPath("/tmp/winml-1"), "<scratch>"),  # noqa: S108 - a name, no file
        (PurePosixPath("/"), "<disk>"),
    ],
    home=PurePosixPath("/home/ann"),
)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (r"model c:\work\proj\models\a.onnx is", r"model models\a.onnx is"),
        ("model 'C:/Work/Proj/models/a.onnx' is", "model 'models/a.onnx' is"),
        (r"'c:\\Work\\Proj\\models\\a.onnx'", r"'models\\a.onnx'"),
        (r"in C:\Work\Proj.", "in <rootdir>."),
        (r"in 'C:\Work\Proj\'", "in '<rootdir>\\'"),
        (r"C:\WORK\proj\Kept/ab/model.onnx", r"<store>/ab/model.onnx"),
        (r"c:/users/ann/appdata/local/temp\winml-1\log", r"<scratch>\log"),
        (r"~\AppData\Local\Temp\winml-1\log", r"<scratch>\log"),
        (r"C:\users\ANN\x", r"~\x"),
        (r"\\?\C:\Work\Proj\a.onnx", r"\\?\a.onnx"),
        (r"C:\Work\Proj2\x C:\Work\Proj.old D:\Work\Proj\x", r"C:\Work\Proj2\x C:\Work\Proj.old D:\Work\Proj\x"),
    ],
)
def test_a_windows_path_is_found_however_it_is_spelled(text: str, hidden: str) -> None:
    assert ON_WINDOWS.hide(text) == hidden


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("model file /srv/proj/models/a.onnx is empty", "model file models/a.onnx is empty"),
        ("/srv/proj:/srv/proj/a", "<rootdir>:a"),
        ("'/home/ann/.cache/store/ab/c', '/home/ann/x'", "'<store>/ab/c', '~/x'"),
        ("~/.cache/store/ab", "<store>/ab"),
        ("file:///tmp/winml-1/log", "file://<scratch>/log"),
        ("/SRV/proj/a /mnt/srv/proj/a /srv/project", "/SRV/proj/a /mnt/srv/proj/a /srv/project"),
        ("/model/layers.0/attn", "/model/layers.0/attn"),
    ],
)
def test_a_posix_path_is_found_and_no_other(text: str, hidden: str) -> None:
    assert ON_LINUX.hide(text) == hidden


@wine_breaks("it does not tell where a link leads")
def test_a_folder_is_known_by_where_its_link_leads_as_well(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    try:
        link.symlink_to(tmp_path / "real", target_is_directory=True)
    except OSError:
        pytest.skip("this user may not make links")
    places = Places([(link, "<store>")])
    assert places.hide(f"{link / 'a'} {tmp_path / 'real' / 'a'}") == f"{Path('<store>/a')} {Path('<store>/a')}"


def test_every_text_of_plain_data_is_hidden_but_below_keys_that_are_spared() -> None:
    value = {"a": ["/srv/proj/x", 1, None], "names": ["/srv/proj/x"], "b": {"c": "/srv/proj/y"}}
    expected = {"a": ["x", 1, None], "names": ["/srv/proj/x"], "b": {"c": "y"}}
    assert ON_LINUX.hide_in(value, but=frozenset({"names"})) == expected
