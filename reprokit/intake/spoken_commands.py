"""Commands that people write in sentences, in lists and in quotes, rather than paste. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from reprokit.intake import likely
from reprokit.intake.commands import (
    ALONE,
    ASKS,
    BUILT,
    MOST,
    MOST_LINES,
    PROMPT,
    Shell,
    assignments,
    parts,
    printed_by_build,
    program_of,
    quoted,
    role_of,
    roles,
    unknown,
    within,
)
from reprokit.intake.failing_command import FINE, OR
from reprokit.intake.pieces import ReportPiece

_MARK = re.compile(r"^\s*(?:>\s?)*\s*(?:(?:[-*+•]|\(?\d{1,2}[.)、])\s+|\d{1,2}、)?(?:>\s*(?=\w)|#\s+(?=\.{1,2}/\w))?")
"""Marks of quotes and lists before a command in prose."""
_RAN = re.compile(
    r"(?:(?:\b(?P<run>ran|run(?:ning|s)?|execut(?:e|ed|ing)|invok(?:e|ed|ing)|launch(?:ed|ing)?|start(?:ed|ing)?"
    r")|\b(?P<when>(?:when|if) (?:I|we))"
    r"|\b(?:call(?:ed|ing)|typ(?:e|ed|ing)|with|do(?:ing)?|via|using|used?|by|build(?:ing)?|compil\w+))"
    r"(?![\w./-])|(?P<han>运行|执行|启动|调用|输入|使用|用)|通过|编译|构建)(?:了|完)?(?:如下|以下|下面)?的?(?:命令|指令)?(?:一[条个])?"
    r"[:：]?\s*(?:(?:the|a|my|this|just|simple|following|command|script|cmd):? ){0,3}"
    r"(?=(?P<rest>[\w./~$][^,，。；;`\n\u3040-\u9fff]{1,300}))",
    re.IGNORECASE,
)
"""What stands behind a word for running, or behind one that may be about anything."""
_KNOWN = re.compile(
    r"(?:[A-Z][A-Z0-9_]+=\S*\s+){0,8}(?:sudo )?"
    r"(?:\./\S|(?:python[\d.]*|torchrun|bash|sh|pip\d?|uv|conda|make|cmake|bazel|pytest|tox|docker|npm|cargo)\s)"
)
"""Programs that behind any of these words are a command."""
_FILE = re.compile(r"(?:[\w-]+/)*[\w-]+\.(?P<ending>py|sh)(?![\w/])(?: --?[a-z].{0,200})?", re.IGNORECASE)
_SCRIPT = re.compile(
    r"(?<![\w./`'\"-])(?P<rest>(?:bash|sh|python[\d.]*) [\w./-]+\.(?:sh|py)"
    r"(?: --?[A-Za-z](?a:[\w-]*(?:[ =][\w./-]+)?)){0,9})"
    r"(?=\s*(?:[\u4e00-\u9fff，]|$)| (?:fails|failed|crashes|hangs|gives|results)\b)"
)
"""A script that is started, and what comes of it."""
_REST = re.compile(
    r"\s+(?:to (?:build|train|run|start|install|test|compile|reproduce|launch|get)"
    r"|and (?:I|it|we|then|got|get|see)|but|which|(?:I|we) (?:get|got|see)|it (?:fails|crashes|gives)"
    r"|in(?= (?:the |my |a )?(?:terminal|shell|console|command|folder|directory|[\w.-]{1,60}/))"
    r"|(?:gives?|fails?|crashes|hangs|returns?|throws?|raises?|produces?|results?)(?=[ :：]|$))(?!\w).*$"
)
"""What goes on behind a command in a sentence."""
_NAMED = re.compile(
    r"^\s*(?:[-*+•]\s+|\d+[.)、]\s*)?(?:\*\*)?(?P<label>[^\W\d][^:：`\n]{1,160})[:：](?:\*\*)?\s*"
    r"`?(?P<rest>(?:sudo )?(?:[A-Za-z_$]|\.{0,2}/|~/)[^`\n]{2,500})`?$"
)
"""An answer in a form: what is before the colon may be anything."""
_ASKS = re.compile(r"(?:command ?(?:line)?|run|指令|命令|运行|执行)[^:：]{0,30}$", re.IGNORECASE)
"""Words of a label that ask for a command."""
_ARGUMENT = re.compile(r"\s(?:--?\w|\S*[./=]\S)")
_ALONE = ALONE | {"make install"}
"""Commands without an argument that people name in a sentence, where they start them."""
_ADVISED = re.compile(
    r"\bplease (?:run|try|use|execute)|\b(?:you|one|users?) (?:can|could|should|may|might)\b|\bhave you tried"
    r"|\bsuggest|\brecommend|\bdocs?\b|\bdocumentation\b"
    r"|\b(?:do not|don[’']t|did not|didn[’']t|never) (?:run|use|try|execute)"
    r"|请先?(?:运行|执行|使用|尝试)|建议|推荐|文档|(?:没有?|未|不要|别)(?:再)?(?:运行|执行|使用|用)",
    re.IGNORECASE,
)
"""Words about a command that others are to run, or that was not run."""
_SUBCOMMAND = re.compile(
    r"run|build|test|check|start|serve|exec|compose|install|add|update|upgrade|sync|init|new|create|mod|train|clean|export"
)
"""The second word of commands that are all words: ``npm run wib``."""
_STEP = re.compile(r"^\s*(?:\d{1,2}|[a-z])[.)、]\s|^\s*(?:Step|步骤)\s*\d", re.IGNORECASE)
"""Items of numbered lists, whose commands are the steps of one sequence."""
_BULLET = re.compile(r"^\s*[-*+•]\s")
_SHORT = 40
"""Characters of a line that stands for a heading."""
_LED = re.compile(r"[:：]\W*$")
_BEFORE = re.compile(
    r"(?:\b(?:ran|re-?run|run(?:ning|s)?|execut\w+|invok\w+|launch\w*|call(?:ed|ing)?|start\w*|typ(?:e|ed|ing)|enter\w*"
    r"|issue|with|do(?:ing)?|via|using|used?|by|then|try(?:ing)?|tried|after|when|during|following|fail\w{0,3}|crash\w{0,3})"
    r"|运行|执行|使用|输入|启动|通过|用|调用)(?:了|命令|指令|的)?"
    r"(?:\s+(?:the|a|this|my|following|below|command|script|simple)){0,3}\W{0,6}$",
    re.IGNORECASE,
)
"""Words right before a command."""
_AFTER = re.compile(
    r"^\W{0,4}(?:这[个条]?)?命令|^\W{0,4}(?:(?:command|now|also|still|it|just) ){0,2}"
    r"(?:fail|crash|hang|panic|g[ie]ve|return|print|throw|rais|segfault|produc|report|result|show|output|报错|失败|出错"
    r"|崩溃|时|后|出现)",
    re.IGNORECASE,
)
"""Words right behind a command that fails."""
_CMD = re.compile(r"\b(?:cmd|command|reproduc\w{1,5})\W{0,5}$|(?:命令|指令)\W{0,3}$", re.IGNORECASE)
_SET = re.compile(
    r"(?:\b(?:with|set|setting|export|exporting|using|env|environment|variables?)|设置|环境变量|设)(?:了|为)?"
    r"[\s`'\":：]{0,4}(?!CMAKE_)(?P<name>[A-Z][A-Z0-9]{0,30}_[A-Z0-9_]{1,40})[`'\"]?"
    r"(?:=[`'\"]?(?P<value>(?!ON\b|OFF\b|[A-Z][a-z])[A-Za-z\d_./:,+-]{1,200})"
    r"|(?: (?:is |was )?(?:set )?to | ?设?为 ?)"
    r"(?P<said>[`'\"]?\d[\d.]{0,20}|[`'\"]?[A-Za-z\d_./-]{1,80}(?=[`'\",.;)，。]|$)))"
)
"""A variable that a sentence says is set for what fails."""


def in_prose(
    piece: ReportPiece, taken: Sequence[tuple[int, int]] = (), subjects: frozenset[str] = frozenset()
) -> list[Shell]:
    """Commands in prose: lines and items of lists that are commands, in backticks, after ``Command:`` or ``I ran``.

    Lines and items that follow each other belong together; those in a sentence are by themselves. ``subjects``: the
    names that the report is about.
    """
    found: list[Shell] = []
    lines = piece.text.split("\n")
    together, skip, step = -2, -1, False
    steps = bool(likely.STEPS.search(piece.under))
    built = BUILT.search(piece.text) is not None
    for number, line in enumerate(lines):
        if len(line) > 5000 or number <= skip or not line.strip() or within(piece.line + number, taken):
            together += not line.strip()  # an empty line tears nothing
            continue
        above = next((one for one in reversed(lines[:number]) if one.strip()), "")
        steps = steps or bool(likely.STEPS.search(line) and (_LED.search(line) or len(line) < _SHORT))
        texts, whole = _said(line, above, [*likely.around(piece), *(["steps"] if steps else [])], subjects)
        item = bool(_STEP.match(line) or (steps and _BULLET.match(line)))
        step = step and (item or line.startswith((" ", "\t"))) and not (FINE.search(line) or OR.search(line))
        goes_on = found and (step or (whole and together >= number - 1))
        shell = found[-1] if goes_on else Shell(replace(piece, lead=above.strip()[:200] or piece.lead))
        if shell.lines == []:
            shell.said = "" if whole else _clause(line, texts[0][0]) if texts else line
        for said, places in texts:
            if shell.said != (side := shell.said if whole or step else _clause(line, said)):
                found += [shell] if shell.lines else []
                shell = Shell(shell.piece, said=side)
            text = _continued(said.strip(), lines[number + 1 : number + 1 + MOST])
            skip = max(skip, number + text.count("\n"))
            role = role_of(text, lenient="asked" in places)
            role = role or ("run" if unknown(text, *places, subjects=subjects) else "")
            named = role not in ("run", "setup") or whole or " " in text or "/" in text or "verb" in places
            named = named or (text in _ALONE and not re.search(rf"[`'\"“‘]{text}[`'\"”’]", line))
            if role and named and not printed_by_build(text, built) and len(shell.lines) < MOST_LINES:
                shell.lines += [
                    part for part in parts(text, piece.line + number, role) if part not in shell.lines[-20:]
                ]
        if shell.lines and not (found and shell is found[-1]):
            found.append(shell)
        if shell.lines:
            together = skip if whole and skip > number else number if whole else together
            step = step or item
    return found


def _clause(line: str, text: str) -> str:
    """The sentence of a line that has a text, or the part of it that a turn parts from the rest."""
    at = max(line.find(text.split("\n")[0][:40]), 0)
    ends = [hit.end() for hit in _ENDS.finditer(line)]
    return line[
        max((end for end in ends if end <= at), default=0) : min(
            (end for end in ends if end > at + len(text)), default=len(line)
        )
    ]


_ENDS = re.compile(
    r"[。！？；;]|(?<=[\w`\"')])[.!?](?=[`\"')]{0,2} [A-Z])|\b(?:but|while|whereas|however|otherwise)\b"
    r"|但|否则|而(?!且)",
    re.IGNORECASE,
)


def _said(
    line: str, above: str, around: Sequence[str], subjects: frozenset[str]
) -> tuple[list[tuple[str, Sequence[str]]], bool]:
    """(the texts in a line of prose that may be commands, each with its places; whether one is all of the line).

    ``above``: the line before; ``around``: the places of all of it.
    """
    if _LED.search(above):
        around = [*around, "asked" if likely.ASKED.search(above) and "asked" not in around else "led"]
    bare = _MARK.sub("", line).strip()
    bare = bare[hit.end() :] if (hit := PROMPT.match(bare)) else bare
    around = [*around, *(["prompt"] if hit else []), "alone"]
    if (marked := re.fullmatch(r"(`+)([^`]+)\1[.。,，;；]?", bare)) and len(marked[2]) < 2000:
        return [(PROMPT.sub("", marked[2]).removeprefix("$ "), [*around, "mark"])], True
    starts = hit or roles().get(program_of(assignments(bare)[1])) or re.match(r"\.{1,2}/\w|(?:export|cd)\s", bare)
    if starts and role_of(bare) and (hit or not _plain(assignments(bare)[1])):
        return [(bare, around)], True
    if "`" not in bare and unknown(bare, *around, subjects=subjects):
        return [(bare, around)], True
    advised = _ADVISED.search(line) and not likely.STEPS.search(line)

    def ran(found: Iterable[tuple[str, Sequence[str]]]) -> list[tuple[str, Sequence[str]]]:
        return [one for one in found if not (advised and _ADVISED.search(_clause(line, one[0]).replace(one[0], "")))]

    sets = [one for one in _SET.finditer(line) if not FINE.search(_clause(line, one[0]))]
    values = ((one["name"], (one["value"] or one["said"]).strip("`\"'.,")) for one in sets)
    given = [(f"export {name}={value}", ()) for name, value in values]
    spans = ran(_spans(line, subjects))
    if spans:
        return [*given, *spans], False
    return ran([*given, *_in_sentence(line, subjects)]), False


def _argued(text: str) -> bool:
    """Whether a command has an argument, or a subcommand."""
    return bool(_ARGUMENT.search(text) or _SUBCOMMAND.fullmatch("".join(text.removeprefix("sudo ").split()[1:2])))


def _plain(text: str) -> bool:
    """Whether a line has nothing but words behind the name of a program, the first of them no subcommand."""
    words = text.rstrip(".!?。！？").split()
    second = "".join(words[1:2]).lower()
    if second in likely.words() and second not in ("run", "test"):  # bazel with an older bazel
        return True
    known = len(words) < 3 or words[0] in ("make", "gmake", "ninja") or _SUBCOMMAND.fullmatch(words[1])
    return not known and all(re.fullmatch(r"[^\W\d_]+", word) for word in words[1:])


def _in_sentence(line: str, subjects: frozenset[str]) -> list[tuple[str, Sequence[str]]]:
    """The command in a sentence without quotes: behind a label, or behind a verb."""
    if named := _NAMED.match(line):
        text = re.sub(r"(?<=\w)\.$", "", named["rest"])
        asked = bool(_ASKS.search(named["label"]))
        places = ["asked"] if asked else ["led", "alone"]
        if role_of(text) in ("run", "setup") and (asked or _argued(text)):
            return [(text, places)]
        if asked and unknown(text, *places, subjects=subjects):
            return [(text, places)]
    found = [(ran, _cut(ran["rest"])) for ran in _RAN.finditer(line)]
    for ran, text in found:
        told = ran["run"] or ran["han"] or ran["when"]
        if told and (name := _FILE.match(text)) and name[0] != "setup.py":
            return [(f"{'python' if name['ending'] == 'py' else 'bash'} {name[0]}", ())]
        alone = text in _ALONE or (_argued(text) and not _ARGUMENT.search(text))
        if (_KNOWN.match(text) or (told and alone)) and role_of(text) and not _plain(text):
            return [(text, ())]
    if script := _SCRIPT.search(line):
        return [(script["rest"], ())]
    for ran, text in found:
        ends = line[ran.start("rest") + len(text) :]
        places = ["verb", *(["fails"] if _AFTER.match(ends) else [])]
        # as in "running multi-wib tests", "使用fp16"
        plain = not _ARGUMENT.search(text) and (" " in text or ran["han"] in ("使用", "用"))
        if (ran["run"] or ran["han"]) and not plain and unknown(text, *places, subjects=subjects):
            return [(text, places)]
    return []


def _cut(text: str) -> str:
    """A command without the rest of its sentence."""
    return re.sub(r"(?<![\s.])\.$|\s*[:：]-?$", "", _REST.sub("", text).strip())


def _spans(line: str, subjects: frozenset[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """The quoted texts in a line, with the words around them."""
    for span in re.finditer(r"`([^`\n]{3,2000})`", line):
        before = line[max(0, span.start() - 60) : span.start()]
        around = ["verb", *(["alone"] if " " in span[1] else [])] if _BEFORE.search(before) else []
        prompt = ["prompt"] if PROMPT.match(span[1]) else ["asked"] if _CMD.search(before) and not around else []
        yield (
            PROMPT.sub("", span[1]).removeprefix("$ "),
            [*prompt, *around, *(["fails"] if _AFTER.match(line[span.end() :]) else [])],
        )
    for span in re.finditer(r"(?<![\w=])(['\"“‘])(\w[^'\"“”‘’`\n]{5,300})['\"”’](?!\w)", line):
        if role_of(span[2]):
            yield span[2], ()
        elif (
            " " in span[2]
            and _BEFORE.search(line[: span.start()][-60:])
            and unknown(span[2], "verb", subjects=subjects)
        ):
            yield span[2], ["verb"]


def _continued(text: str, following: Sequence[str]) -> str:
    """A command with the lines that continue it, after backslashes and in quotes."""
    for number, line in enumerate(following):
        if not text.endswith("\\"):
            if "\n" in text or ASKS.match(text):
                text = "\n".join([text, *quoted(text, following[number:])])
            break
        text += f"\n{line.rstrip()}"
    return text.rstrip("\\").rstrip()
