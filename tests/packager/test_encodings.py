"""Sources in other encodings and with other line ends become one UTF-8 file that does the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import run, run_original

from kernel_lint.packager import PackageError, package

HELPER = (
    'NAME = "é"\nsize = 3\n\n\ndef show():\n    text = """a\nb"""\n    return NAME, len(NAME), size, text\n'
)
ENTRY = "import helper\nsize = 1\nfrom helper import show\nprint(ascii(show()), helper.size, size)\n"
BYTES = {
    "utf-8": HELPER.encode(),
    "bom": b"\xef\xbb\xbf" + HELPER.encode(),
    "crlf": HELPER.replace("\n", "\r\n").encode(),
    "cr": HELPER.replace("\n", "\r").encode(),
    "latin-1": b"# -*- coding: latin-1 -*-\n" + HELPER.encode("latin-1"),
    "cp1252 on line 2": b"#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\n"
    + HELPER.encode("cp1252"),
    "tabs": HELPER.replace("    ", "\t").encode(),
    "no last line end": HELPER.rstrip("\n").encode(),
    "form feed": HELPER.replace("\n\n\n", "\n\x0c\n").encode(),
}


@pytest.mark.parametrize("name", BYTES)
def test_encoding(name: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "helper.py").write_bytes(BYTES[name])
    (source / "main.py").write_text(ENTRY)
    expected = run_original(source)
    assert expected == "('\\xe9', 1, 3, 'a\\nb') 3 1\n"
    target = tmp_path / "alone" / "generated_kernel.py"
    target.parent.mkdir()
    text = package(source / "main.py").text
    target.write_bytes(text.encode())
    assert run(target)[0] == expected, text
    assert "\r" not in text
    assert package(target).text == text


def test_wrong_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_bytes(HELPER.encode("latin-1"))
    (tmp_path / "main.py").write_text(ENTRY)
    with pytest.raises(PackageError, match=r"helper\.py: cannot be read") as caught:
        package(tmp_path / "main.py")
    assert "UTF-8" in str(caught.value)
