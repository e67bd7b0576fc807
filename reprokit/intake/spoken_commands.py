"""Commands that people write in sentences, in lists and in quotes, rather than paste. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reprokit.intake.commands import (
    MOST,
    MOST_LINES,
    PROMPT,
    Shell,
    assignments,
    parts,
    program_of,
    role_of,
    roles,
    sentence,
    within,
)
from reprokit.intake.pieces import ReportPiece

_MARK = re.compile(r"^\s*(?:>\s?)*\s*(?:(?:[-*+•]|\(?\d{1,2}[.)、])\s+)?(?:>\s*(?=\w))?")
"""Marks of quotes and lists before a command in prose."""
_LABELLED = re.compile(
    r"^\s*(?:[-*]\s*)?(?:\*\*)?[^:：`]{0,60}(?:command|run|指令|命令|运行|执行)[^:：`\n]{0,30}[:：](?:\*\*)?\s*(?P<rest>[^\s*].*)$",
    re.IGNORECASE,
)
_RAN = re.compile(
    r"(?:\bran|\brun(?:ning)?|\bexecut\w+|\bstart\w*|\btyp(?:e|ed|ing)|\bwith|\bdo(?:ing)?|\bvia|\busing"
    r"|运行|执行|使用|输入)(?:了|命令|指令)?(?:一[条个行句次])?[:：]?\s*"
    r"(?P<rest>(?:[A-Z][A-Z0-9_]+=\S*\s+){0,8}(?:sudo )?"
    r"(?:\./\S+|(?:python[\d.]*|torchrun|bash|sh|pip\d?|uv|conda|make|cmake)\s)[^,，。；;`\n\u3040-\u9fff]{1,300})",
    re.IGNORECASE,
)
_WHEN = re.compile(
    r"\b(?:when|if|after|while|once|as soon as) (?:I|we|you) "
    r"(?P<rest>(?:pip\d?|uv|conda|poetry|npm|docker|make|cmake|python[\d.]*) [^,，。；;`\n]{1,200}?)"
    r"(?= (?:I|we|you|it|and|then|the) |[,:]|$)",
    re.IGNORECASE,
)
"""A command in the place of a verb: ``when I pip install wib I get``."""
_GIVES = re.compile(
    r"(?P<rest>\S+(?: \S+){1,12}?) (?:results? in|fails? with|gives?|returns?|produces?|throws?|raises?|reports?)"
    r"(?: (?:the following|this|an?)(?: errors?| output| message)?| errors?)?\s*[:：]"
)
"""A command and what comes of it: ``make wib results in:``."""
_ASKED = re.compile(r"\bcommands?\b|命令|指令", re.IGNORECASE)
_OPTION = re.compile(r"\s*[a-z][\w.+/-]*(?:\s+\S+){0,3}?\s+--?[A-Za-z]")


def in_prose(piece: ReportPiece, taken: Sequence[tuple[int, int]] = ()) -> list[Shell]:
    """Commands in prose: lines and items of lists that are commands, in backticks, after ``Command:`` or ``I ran``.

    Lines and items that follow each other belong together; those in a sentence are by themselves.
    """
    found: list[Shell] = []
    lines = piece.text.split("\n")
    together, skip = -2, -1
    for number, line in enumerate(lines):
        if len(line) > 5000 or number <= skip or not line.strip() or within(piece.line + number, taken):
            together += not line.strip()  # an empty line tears nothing
            continue
        texts, whole = _said(piece, line)
        shell = found[-1] if whole and together >= number - 1 and found else Shell(piece, said="" if whole else line)
        for text in texts:
            text = _continued(text.strip(), lines[number + 1 : number + 1 + MOST])
            skip = number + text.count("\n")
            role = role_of(text, lenient=whole and bool(_ASKED.search(piece.heading)))
            if not role and _ASKED.search(piece.heading) and _OPTION.match(text) and not sentence(text):
                role = "run"
            named = role not in ("run", "setup") or whole or " " in text or "/" in text
            if role and named and len(shell.lines) < MOST_LINES:
                shell.lines += [
                    part for part in parts(text, piece.line + number, role) if part not in shell.lines[-20:]
                ]
        if shell.lines and not (found and shell is found[-1]):
            found.append(shell)
        if whole and shell.lines:
            together = skip
    return found


def _said(piece: ReportPiece, line: str) -> tuple[list[str], bool]:
    """(the texts in a line of prose that may be commands, whether one is all of the line)."""
    bare = _MARK.sub("", line).strip()
    bare = bare[hit.end() :] if (hit := PROMPT.match(bare)) else bare
    if (quoted := re.fullmatch(r"(`+)([^`]+)\1[.。,，;；]?", bare)) and len(quoted[2]) < 2000:
        return [quoted[2].removeprefix("$ ")], True
    if (gives := _GIVES.fullmatch(bare)) and role_of(gives["rest"]) in ("run", "setup"):
        return [gives["rest"]], False
    starts = hit or roles().get(program_of(assignments(bare)[1])) or re.match(r"\.{1,2}/\w|(?:export|cd)\s", bare)
    if starts and role_of(bare):
        return [bare], True
    spans = [text.removeprefix("$ ") for text in re.findall(r"`([^`\n]{3,2000})`", line)]
    spans += [
        text
        for _, text in re.findall(r"(?<![\w=])(['\"“‘])(\w[^'\"“”‘’`\n]{5,300})['\"”’](?!\w)", line)
        if role_of(text)
    ]
    if spans:
        return spans, False
    labelled = _LABELLED.match(line)
    if labelled and role_of(labelled["rest"]):
        return [labelled["rest"]], False
    if ran := _WHEN.search(line) or _RAN.search(line):
        return [ran["rest"].strip().rstrip(".")], False
    # Under a heading that asks for the command, any line with an option is one, even of an unknown program.
    return ([bare], True) if _ASKED.search(piece.heading) and _OPTION.match(bare) else ([], False)


def _continued(text: str, following: Sequence[str]) -> str:
    """A command with the lines that continue it, after backslashes."""
    for line in following:
        if not text.endswith("\\"):
            break
        text += f"\n{line.rstrip()}"
    return text.rstrip("\\").rstrip()
