"""What of a failure stays the same when it happens again: of its message, and which frames. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from reprokit.core.patterns import is_regex
from reprokit.core.redaction import STANDS
from reprokit.evidence import frames as places
from reprokit.evidence.model import Frame
from reprokit.evidence.normalise import ENFORCE, essence

LONGEST = 120
"""Most characters of a message in a signature; longer ones are cut at a word."""
_LEAST = 6
"""Fewest letters of a part of a message that is specific enough."""

_QUOTED = re.compile(
    r"(?<!\w)'(?P<a>[^'\n]{0,200})['’]|\"(?P<b>[^\"\n]{0,200})\"|`(?P<c>[^'`\n]{0,200})['`]|[‘“](?P<d>[^’”'\n]{0,200})[’”']"
)
_VOLATILE = re.compile(
    r"0x[0-9a-fA-F]+|\b[a-zA-Z][\w+.-]*://\S+|(?:[A-Za-z]:)?(?:[\w.@~+-]*[/\\]){2,}[\w.@+-]*|\.{0,2}[/\\][\w.@+-]+[/\\]?[\w.@+-]*"
    r"|(?<![\w.])(?<![A-Za-z]-)[-+]?\d[\w.+-]*|[\[({][^\[\](){}\n]{0,200}\d[^\[\](){}\n]{0,200}[\])}]"
    r"|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|<[^<>\n]{1,200} (?:object )?at [^<>\n]{1,100}>"
    r"|\bat \.{0,2}/\S+"
)
"""Text that changes between runs or machines: addresses, paths, numbers, and brackets around them."""
_HOME = re.compile(r"(?<![\w~])~(?:[/\\][\w.@~+/\\-]*|(?=$|[\s'\"]))")
_SENTENCE = re.compile(r"(?<=[^\d\s])[.!?]\s+(?=[A-Z\[(])|(?<=[\d)\]])\.\s+(?=[A-Z])|[。！？]|\n")
_PADDLE_CLASS = re.compile(rf"^\((?:{'|'.join(ENFORCE)})\)\s*|^(?:{'|'.join(ENFORCE)})Error:\s*")


def stable_part(message: str) -> tuple[str, str]:
    """(what of a message stays the same, how it was chosen in words); ('', '') for an empty message.

    It is the first sentence; where that has numbers, paths or values, a pattern (``/.../``) that takes any in their
    places, or the text before or behind a single one.
    """
    own = essence(message)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    first = next((line for line in lines if own.startswith(" ".join(line.split())[:60])), lines[0] if lines else "")
    first = _PADDLE_CLASS.sub("", first[:1000])
    sentence = _SENTENCE.split(first, maxsplit=1)[0].strip().rstrip(".:")
    if not sentence:
        return "", "the exception has no message" if not lines else ""
    inside = sentence[1:-1]
    if sentence[0] in "'\"" and sentence[-1] == sentence[0] not in inside and " " in inside:
        sentence = inside  # quotes of the report rather than of the message
    marks = _volatile(sentence)
    if not marks:
        text = shorten_message(sentence)
        return text, "the message's first sentence" if text != first else "the message"
    parts = _texts_between(sentence, marks)
    while parts and not _is_specific(parts[0]):
        del parts[0]
        parts[:1] = [part.lstrip(" \t,;:") for part in parts[:1]]
    while parts and not _is_specific(parts[-1]):
        parts.pop()
    if len(parts) == 1 and marks[0][0] == 0 and re.fullmatch(r"\W*[A-Za-z]{1,14}\W*", parts[0]):
        return "", f"of the message {_shown(sentence)} only a word is sure to stay the same"
    if len(parts) == 1:
        return shorten_message(parts[0].strip()), f"the part of {_shown(sentence)} without numbers, paths or values"
    if parts:
        return pattern(parts), f"{_shown(sentence)}, where .* takes any number, path or value"
    if len(sentence) <= 40 and "/" not in sentence and "0x" not in sentence:  # an address is another each time
        return sentence, "the whole message, most of which may differ on other machines"
    return "", f"no part of the message {_shown(sentence)} is sure to stay the same"


def pattern(parts: Sequence[str]) -> str:
    """A regular expression for texts that follow each other in a line, of at most about ``LONGEST`` characters."""
    kept: list[str] = []
    for part in parts:
        if kept and sum(map(len, kept)) + len(part) > LONGEST:
            break
        kept.append(shorten_message(part))
    while not _is_specific(kept[-1]):
        kept.pop()
    if len(kept) == 1:
        return kept[0].strip()
    return "/" + ".*".join(_SPECIAL.sub(r"\\\g<0>", part) for part in kept) + "/"


def readable_pattern(text: str) -> str:
    """A pattern of :func:`stable` as people would write it."""
    return re.sub(r"\\(.)", r"\1", text[1:-1].replace(".*", " ... ")).replace("  ", " ") if is_regex(text) else text


_SPECIAL = re.compile(r"[.^$*+?{}\[\]\\|()]")


def _volatile(text: str) -> list[tuple[int, int]]:
    """The spans of volatile parts. A quoted name (``'NoneType'``) is not volatile: it identifies the bug."""
    spans: list[tuple[int, int]] = []
    kept: list[tuple[int, int]] = []
    for hit in _QUOTED.finditer(text):
        inside = next(text for text in hit.groups() if text is not None)
        name = re.fullmatch(r"[A-Za-z_][\w.:<>-]{0,60}(?: [A-Za-z_]\w*){0,2}(?:\(\))?", inside) and "/" not in inside
        (kept if name else spans).append(hit.span())
    # A placeholder of something private is not in any output.
    for hit in (*STANDS.finditer(text), *_HOME.finditer(text), *_VOLATILE.finditer(text)):
        start, end = hit.span()
        if start < end and not any(a <= start and end <= b for a, b in (*kept, *spans)):
            spans.append((start, end))
    return sorted(spans)


def _texts_between(text: str, marks: Sequence[tuple[int, int]]) -> list[str]:
    """The texts between volatile parts, with the spaces around them where others follow."""
    found, start = [], 0
    for a, b in [*marks, (len(text), len(text))]:
        if a >= start and (part := text[start:a]).strip(" \t,;:#=([{<'\"`-)]}"):
            found.append(part)
        start = max(start, b)
    if found:
        found[0] = found[0].lstrip(" \t,;:#=)]}'\"`-")
        found[-1] = found[-1].rstrip(" \t,;:#=([{<'\"`-")
    return found


_COMMON = re.compile(r"\b(?:errors?|fatal|failed|in|at|line|file|the|while)\b", re.IGNORECASE)
"""Words that say little of a failure."""


def _is_specific(text: str) -> bool:
    return bool(re.search(r"[^\W\d_]{2}", _COMMON.sub("", text))) and sum(
        character.isalpha() for character in text
    ) >= (2 if re.search(r"[\u4e00-\u9fff]", text) else _LEAST)


def shorten_message(text: str) -> str:
    """At most the first ``LONGEST`` characters of a text, cut at a word."""
    if len(text) > LONGEST:
        words = text[:LONGEST].rpartition(" ")[0]  # of a name longer than that, a part
        text = words if 2 * len(words) > LONGEST else text[:LONGEST]
    # /.../ is the format's form of a regular expression.
    return text.strip("/") if text.startswith("/") and text.endswith("/") else text


def _shown(text: str) -> str:
    return repr(text if len(text) <= 90 else text[:89] + "…")


# -- frames --------------------------------------------------------------------------------------------------------


def identifying_frames(
    frames: Sequence[Frame], about: Collection[str] = (), files: Collection[str] | None = None
) -> tuple[list[str], str]:
    """(frames that a signature names, outermost first; which these are, in words).

    The project's own, without the entry of the started program (its module level and its ``main``, which are in every
    traceback), and the function that they call of the packages that the report is ``about``. What libraries do inside
    changes with their patch releases: the same failure there has other frames. A recursion counts once. ``files``: the
    names of the files that the case has; its own frames are in these, where they are known. A traceback that begins in
    another file is of another program, which calls the library elsewhere: it gives none.
    """
    frames = [Frame(file=frame.file.replace("\\", "/"), line=frame.line, function=frame.function) for frame in frames]
    first = next((at for at, frame in enumerate(frames) if places.kind(frame) == "own"), len(frames))
    if files is not None and first < len(frames) and not frames[first].file.startswith("<"):
        frames = frames if frames[first].file.rpartition("/")[2] in files else []
    called = [frame for frame in frames[first:] if places.kind(frame) == "package"]
    own = [frame for frame in frames if places.kind(frame) == "own" and not _is_entry(frame, frames[0].file)]
    kept = [frame for frame in own if files is None or frame.file.rpartition("/")[2] in files]
    subject = [frame for frame in called if _is_of(frame, about)] or ([] if own or about else called)
    which = "the project's own frames, without the entry of the started program"
    if subject:
        which = (
            f"{which}, and the library's function that they call" if kept else "the library's function that was called"
        )
    names = dict.fromkeys(places.name(frame) for frame in (*kept, *subject[:1]))
    return [name for name in names if re.fullmatch(r"[^\s:]+:[^\s:]+", name)], which


def _is_of(frame: Frame, about: Collection[str]) -> bool:
    """Whether a frame is of some packages, and no decorator of theirs."""
    found = _INSTALLED.search(frame.file)
    return bool(found and found["name"].lower() in about and not re.search(r"wrap|decorat", frame.function))


_INSTALLED = re.compile(r"/(?:site|dist)-packages/(?:[^/]{1,120}\.egg/)?(?P<name>\w{1,80})")


def _is_entry(frame: Frame, script: str) -> bool:
    return frame.function == "<module>" or (frame.file == script and frame.function == "main")
