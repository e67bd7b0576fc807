"""The bytes of a report -> its text: encodings, saved web pages and mails, and the two ends of a long log. Pure."""

from __future__ import annotations

import codecs
import email
import email.policy
import re
from html.parser import HTMLParser

MOST = 160_000
"""Most characters of a report that are read: of a longer one the first and the last half of them."""
MOST_LINES = 3_000
"""Most lines that are read, in the same way."""
_COPY = "copy the text that it shows into a file, and name that"
_UNPACK = "unpack it, and name the file with the report"
_KINDS = (
    (b"%PDF-", "a PDF", "make a text of it (pdftotext report.pdf report.txt), and name that"),
    (b"\x89PNG", "a PNG image", _COPY),
    (b"\xff\xd8\xff", "a JPEG image", _COPY),
    (b"GIF8", "a GIF image", _COPY),
    (b"BM", "a BMP image", _COPY),
    (b"PK\x03\x04", "a zip archive, or a document of an office program", _UNPACK),
    (b"\x1f\x8b", "a gzip archive", "unpack it (gunzip, or tar xzf), and name the file with the report"),
    (b"BZh", "a bzip2 archive", _UNPACK),
    (b"\xfd7zXZ", "an xz archive", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", _UNPACK),
    (b"7z\xbc\xaf", "a 7-Zip archive", _UNPACK),
    (b"Rar!", "a RAR archive", _UNPACK),
    (b"\x7fELF", "a program", "name the file with the report"),
    (b"\xd0\xcf\x11\xe0", "a document of an office program", "save it as text, and name that"),
    (b"SQLite format 3", "an SQLite database", "name the file with the report"),
)
"""First bytes of what is not text, what it is, and what to do."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""In this order: UTF-32's mark begins with that of UTF-16."""
_WEB = re.compile(
    r"\A\s*(?:(?:<\?xml[^>]{0,200}>|<!--(?:(?!-->).){0,400}-->)\s*)*<(?:!doctype\s+html|html)\b", re.I | re.S
)
_MIME = re.compile(rb"\A(?:[\w-]{1,60}:.*\n(?:[ \t].*\n)*?){0,60}?MIME-Version:", re.I)
_CONTROL = dict.fromkeys((*range(9), 11, *range(14, 27), *range(28, 32)))


class NotText(ValueError):
    """Bytes that are not text; the message says what they are and what to do."""


def decode(data: bytes) -> str:
    """The text in ``data``, of a web page as Markdown, of a mail its first text. Raises NotText for anything else."""
    for first, kind, advice in _KINDS:
        if data.startswith(first) and (first != b"BM" or b"\0" in data[:64]):
            raise NotText(f"{kind}, which reprokit does not read: {advice}")
    if data[257:262] == b"ustar":
        raise NotText(f"a tar archive, which reprokit does not read: {_UNPACK}")
    if _MIME.match(data[:20_000]):
        body = email.message_from_bytes(data, policy=email.policy.default)
        part = body.get_body(("plain", "html"))
        content = part.get_content() if part is not None else ""
        if isinstance(content, str) and content.strip():
            subject = " ".join(str(body["Subject"] or "").split())
            return (f"# {subject}\n\n" if subject else "") + _of_web(content)
    return _of_web(_characters(data))


def marked(data: bytes) -> str | None:
    """The text in data that begin with a byte order mark; None for other data."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data.decode(name, "replace").removeprefix("\ufeff")
    return None


def _characters(data: bytes) -> str:
    if (text := marked(data)) is not None:
        return text
    sample = data[:4000]
    if b"\0" in sample:
        even, odd = sample[::2].count(0), sample[1::2].count(0)
        if max(even, odd) > max(20 * min(even, odd), len(sample) // 50):
            return data.decode("utf-16-be" if even > odd else "utf-16-le", "replace")
    try:
        return _printable(data.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    high = sum(byte > 127 for byte in data)
    lossy = data.decode("utf-8", "replace")
    if lossy.count("\ufffd") * 20 < high:  # a broken character here and there
        return _printable(lossy)
    try:
        chinese = data.decode("gb18030")
        if sum("\u4e00" <= one <= "\u9fff" or "\u3000" <= one <= "\u303f" for one in chinese) * 3 > high:
            return _printable(chinese)
    except UnicodeDecodeError:
        pass
    return _printable(data.decode("cp1252", "replace"))


def _printable(text: str) -> str:
    """``text``, unless so much of it is control characters that it is not one."""
    sample = text[:4000]
    if len(sample.translate(_CONTROL)) < 0.9 * len(sample):
        raise NotText("not text: name a file with the report as text")
    return text


def shortened(text: str, most: int, most_lines: int = MOST_LINES) -> str:
    """The first and the last lines of a text of more than so many characters or lines, with a line about the rest.

    All lines end in a line feed then: what ends a line for the readers counts here.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    ends = text.split("\n", most_lines // 2)
    if len(text) <= most and (len(ends) <= most_lines // 2 or ends[-1].count("\n") < most_lines // 2):
        return text
    head, tail = text[: most // 2], text[-(most // 2) :]
    head = head[: head.rfind("\n") + 1] or head
    tail = tail[tail.find("\n") + 1 :] or tail
    head = "".join(f"{line}\n" for line in head.split("\n")[:-1][: most_lines // 2]) or head
    tail = "\n".join(tail.rsplit("\n", most_lines // 2)[-(most_lines // 2) :])
    lines = text.count("\n", len(head), len(text) - len(tail))
    cut = len(text) - len(head) - len(tail)
    return f"{head}[reprokit: {cut} bytes ({lines} lines) cut]\n{tail}"


_BLANKS = re.compile(r"(?<=\S)[ \t]{65,}|^[ \t]{201,}", re.MULTILINE)


def squeezed(text: str) -> str:
    """A text without blanks at the ends of lines, and with fewer where there are so many that they tell nothing."""
    lines = [line.rstrip(" \t") if line.endswith((" " * 3, "\t")) else line for line in text.split("\n")]
    return _BLANKS.sub(lambda hit: hit[0][:64], "\n".join(lines))


# -- web pages -----------------------------------------------------------------------------------------------------


def _of_web(text: str) -> str:
    if not _WEB.match(text[:3000]):
        return text
    page = _Page()
    page.feed(text)
    page.close()
    return page.text()


_BLOCKS = frozenset({"p", "div", "section", "article", "tr", "table", "ul", "ol", "dl", "dt", "dd", "blockquote", "hr"})
_HIDDEN = frozenset({"script", "style", "noscript", "svg", "nav", "template", "footer", "button", "select", "form"})
_LANGUAGE = re.compile(r"(?:highlight-source|language|lang|brush:)[- ]?([\w+]+)")


class _Page(HTMLParser):
    """A web page as Markdown: headings, fenced code, lists, and the text between."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden: list[str] = []
        self.code = 0
        self.title = ""
        self.in_title = False
        self.language = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self.hidden.append(tag)
        if named := _LANGUAGE.search(" ".join(value or "" for name, value in attrs if name in ("class", "lang"))):
            self.language = named[1]
        if tag == "title":
            self.in_title = True
        elif tag == "pre":
            self.code += 1
            self.parts.append(f"\n\n````{self.language}\n")
            self.language = ""
        elif self.code:
            self.parts.append("\n" if tag == "br" else "")
        elif re.fullmatch(r"h[1-6]", tag):
            self.parts.append(f"\n\n{'#' * int(tag[1])} ")
        elif tag == "li":
            self.parts.append("\n- ")
        elif tag in ("code", "kbd"):
            self.parts.append("`")
        elif tag in _BLOCKS or tag == "br":
            self.parts.append("\n" if tag in ("br", "tr") else "\n\n")
        elif tag in ("td", "th"):
            self.parts.append("  ")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.hidden:
            del self.hidden[self.hidden.index(tag) :]
        if tag == "title":
            self.in_title = False
        elif tag == "pre" and self.code:
            self.code -= 1
            self.parts.append("\n````\n\n")
        elif self.code:
            return
        elif tag in ("code", "kbd"):
            self.parts.append("`")
        elif tag in _BLOCKS or re.fullmatch(r"h[1-6]", tag):
            self.parts.append("\n\n" if tag != "tr" else "\n")

    def handle_data(self, data: str) -> None:
        if self.in_title:
            self.title += data
        elif self.code:
            self.parts.append(data)
        elif not self.hidden:
            self.parts.append(re.sub(r"\s+", " ", data))

    def text(self) -> str:
        """What was read."""
        text = re.sub(r"\n[ \t]*(?:\n[ \t]*)+(?=\n)", "\n", "".join(self.parts))
        text = re.sub(r"(````\w*\n)\n+|\n+(\n````\n)", r"\1\2", text).strip() + "\n"
        title = " ".join(self.title.split())
        return text if not title or re.search(r"^# \S", text, re.MULTILINE) else f"# {title}\n\n{text}"
