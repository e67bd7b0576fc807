"""Bytes become the text of a report, or are refused as what they are."""

from __future__ import annotations

import pytest

from reprokit.intake import texts
from reprokit.intake.pieces import cut
from tests.unit.limits import within

CHINESE = "# 训练报错\n\n运行 `python train.py` 之后，出现段错误（核心已转储），请帮忙看一下。\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030"])
def test_texts_of_every_encoding_are_read(encoding: str) -> None:
    english = "It fails: ValueError: no\n" * 9
    assert texts.decode(CHINESE.encode(encoding)) == CHINESE
    assert texts.decode(english.encode(encoding)) == english


def test_a_broken_byte_does_not_make_a_text_chinese() -> None:
    assert texts.decode("Génial, ça marche à Besançon".encode("cp1252")) == "Génial, ça marche à Besançon"
    assert texts.decode(CHINESE.encode() + b"\xff\n") == CHINESE + "\ufffd\n"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"%PDF-1.7\n", "a PDF"),
        (b"\x89PNG\r\n\x1a\n", "a PNG image"),
        (b"PK\x03\x04\x14\x00", "a zip archive"),
        (b"\x1f\x8b\x08", "a gzip archive"),
        (b"\x7fELF\x02", "a program"),
        (b"x" * 257 + b"ustar", "a tar archive"),
        (bytes(range(256)) * 20, "not text"),
    ],
)
def test_what_is_not_text_is_named(data: bytes, kind: str) -> None:
    with pytest.raises(texts.NotText, match=kind):
        texts.decode(data)


def test_a_saved_web_page_keeps_its_headings_and_code() -> None:
    page = """<!DOCTYPE html>
<html><head><title>It dies · Issue 3</title><style>p {color: red}</style></head><body><script>var x = "no";</script>
<h2>Steps</h2><p>Run <code>python a.py</code> &amp; wait:</p>
<div class="highlight highlight-source-python"><pre>import wibble
wibble.go(<span>1</span> &lt; 2)
</pre></div><ul><li>one</li><li>two</li></ul></body></html>"""
    text = texts.decode(page.encode())
    assert text == (
        "# It dies · Issue 3\n\n## Steps\n\nRun `python a.py` & wait:\n\n````python\nimport wibble\n"
        "wibble.go(1 < 2)\n````\n\n- one\n- two\n"
    )
    assert [piece.kind for piece in cut(text).pieces] == ["heading", "heading", "prose", "fenced", "prose"]


@pytest.mark.parametrize("before", ["<!---->", "<!-- a --> ", '<?xml version="1.0"?>\n', " \n"])
def test_what_stands_before_a_web_page_is_looked_at_once(before: str) -> None:
    page = b"<html><p>It fails.</p></html>"
    assert texts.decode(before.encode() * 20 + page) == "It fails.\n"
    with within(seconds=5):
        texts.decode(before.encode() * 300 + b"no page")


def test_a_mail_is_decoded() -> None:
    mail = (
        b"From: a@b.example\nSubject: =?utf-8?b?5oql6ZSZ?=\nMIME-Version: 1.0\n"
        b"Content-Type: text/plain; charset=utf-8\n"
        b"Content-Transfer-Encoding: base64\n\nS2V5RXJyb3I6ICd4Jwo=\n"
    )
    assert texts.decode(mail) == "# 报错\n\nKeyError: 'x'\n"


def test_of_a_long_log_both_ends_are_read() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 1001))
    short = texts.shortened(text, 100)
    assert short.startswith("line 1\n")
    assert short.endswith("line 1000\n")
    head, tail = short.split("[reprokit: ")
    lost = int(tail.split("(")[1].split(" ")[0])
    assert head.count("\n") + lost + tail.count("\n") - 1 == 1000
    assert texts.shortened(text, len(text)) == text
