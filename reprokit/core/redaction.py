"""Texts without what is secret and without what says who and where someone is.

A second implementation. Library: detect-secrets.
Why not: it names lines of files that hold secrets, and replaces nothing; nor does it know people and places.
Owner of ours: the room ``core``.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from reprokit.core import netrc_file, private_view
from reprokit.core import private_patterns as patterns
from reprokit.core import private_people as people_patterns
from reprokit.core.private_view import SeenText

_SHORTEST = 4
"""Characters of a secret word; shorter ones would take ordinary words out of a text."""
_PASSES = 5
"""What was put in place of one thing may end the word that hid another."""
_PIECES, _CONTEXT = 500, 2
"""Changed lines up to which the next pass looks at these alone, and the lines around each that it looks at too."""


@dataclass(frozen=True, kw_only=True, order=True)
class Omitted:
    """Something secret that was left out: its kind, such as ``github-token``, and where it stood; never what it was."""

    kind: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.where})" if self.where else self.kind


@dataclass(frozen=True, kw_only=True)
class Scrubbed:
    """A text, and what was left out of it."""

    text: str
    omitted: tuple[Omitted, ...] = ()


def scrub(text: str, *, known: Collection[str] = (), where: str = "", people: bool = True) -> Scrubbed:
    """``text`` with what is secret or private replaced: tokens by ``<kind>``, home directories by ``~``.

    ``known``: values to be taken out wherever they are; a mapping says what is put in their place (``<secret>``
    else). ``people`` false: who and where someone is stays, as in a build's log, which stays on this host until a
    report is made of it; else names of hosts and users that the text shows in one place are removed in all of it.
    ``where``: what the text is, for the list of what was left out, whose entries never hold a value. Equal values get
    equal replacements, and scrubbing again changes nothing.
    """
    scrubber = _Scrubber(where)
    values = known if isinstance(known, Mapping) else dict.fromkeys(known, "<secret>")
    if whole := values.get(f"@{text}"):  # a word, and all of the text
        scrubber.note("host", 1)
        return Scrubbed(text=whole.removeprefix("@"), omitted=tuple(scrubber.omitted))
    steps = (*_SECRET_STEPS, *_PEOPLE_STEPS) if people else _SECRET_STEPS
    before: str | None = None
    for _ in range(_PASSES):
        now = "".join(scrubber.scrubbed(piece, values, steps, line) for piece, line in _changed(text, before))
        before, text = text, now
        if text == before:
            break
    return Scrubbed(text=text, omitted=tuple(scrubber.omitted))


def _changed(text: str, before: str | None) -> Iterator[tuple[str, int | None]]:
    """The pieces of a text, each with the number of lines above it; None for those that are as they were ``before``,
    and that hold nothing any more.
    """
    if before is None:
        yield text, 0
        return
    old = set(before.split("\n"))
    lines = text.split("\n")
    new = [number for number, line in enumerate(lines) if line not in old]
    if len(new) > _PIECES:
        yield text, 0
        return
    lines = [line + "\n" for line in lines[:-1]] + lines[-1:]
    near = {at for number in new for at in range(number - _CONTEXT, number + _CONTEXT + 1)}
    for changed, numbers in groupby(range(len(lines)), near.__contains__):
        piece = list(numbers)
        yield "".join(lines[piece[0] : piece[-1] + 1]), piece[0] if changed else None


def _learned(text: str) -> dict[str, str]:
    hosts, users = people_patterns.learn(text)
    code = people_patterns.names_of_code(text) if users else frozenset()
    found: dict[str, str] = {}
    for name in users:  # images have a user with the name of what they are made for
        found |= {f"{name}@": "<user>@"} if name in code else _user(name)
    for name in hosts:
        found |= _host(name)
        found |= _host(name.partition(".")[0])
    return found


def secret_variable(name: str, value: str) -> bool:
    """Whether a variable is taken for a secret: whatever its value (``HF_TOKEN``, ``db_password``), or by its value
    where the name only speaks of one (``SECRET_KEY_BASE``, ``GITHUB_PAT``).
    """
    if re.search(rf"(?i)(?:{patterns.ALWAYS}|token|[_-]key|pass|[_-]auth)(?:s|_id|_file|_path)?$", name):
        return True
    speaks = re.search(rf"(?i){patterns.AMIDST}(?![a-z])|(?:key|pass|pwd|auth)_?\d+$", name)
    return bool(speaks and _says_something(value))


def _says_something(value: str) -> bool:
    return len(value) >= 6 and not patterns.NOTHING.fullmatch(value) and not re.fullmatch("[0-9]+", value)


_OTHERS = ("private-key", "pgp-block", "ssh-key", "token", "conda-token", "credentials", "authorization", "secret")
_WHO = ("user", "host", "email", "phone", "id-number", "contact", "address", "mac-address")
_WHAT = ("gpu-uuid", "serial", "machine-id")
STANDS = re.compile(f"<({'|'.join((*patterns.TOKENS, *_OTHERS, *_WHO, *_WHAT))})>")
"""What :func:`scrub` puts in the place of something, but for the ``~`` of home directories."""


_REDACTED = re.compile(r"REDACTED_[A-Z_]{3,40}@?")


def for_shell(text: str, name: str = "x.sh") -> str:
    """What :func:`scrub` left, ``REDACTED_SECRET`` in it for ``<secret>``, which a shell takes for a redirection.

    ``name``: of the file that it is; one that no shell reads stays as it is.
    """
    if not (name.endswith((".sh", ".bash")) or re.match(r"#!.{0,80}sh\b", text)):
        return text
    return STANDS.sub(lambda match: "REDACTED_" + match[1].upper().replace("-", "_"), text)


def hosts(names: Iterable[str]) -> dict[str, str]:
    """Names of hosts, in full and without their domain -> what is put in their place; none that say nothing.

    Those that may be words of something else count behind ``@`` and ``://`` only.
    """
    return {
        said: replacement
        for name in names
        for host in (name, name.partition(".")[0])
        for said, replacement in _host(host).items()
    }


def _host(name: str) -> dict[str, str]:
    if len(name) < 2 or name.lower() in people_patterns.GENERIC:
        return {}
    return {name: "<host>"} if _telling(name) else {f"@{name}": "@<host>", f"://{name}": "://<host>"}


def of_this_host(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What says who and where we are, and the values of secret variables -> what is put in their place."""
    environ = os.environ if environ is None else environ
    secrets = (value for name, value in environ.items() if secret_variable(name, value) and _says_something(value))
    found = dict.fromkeys(secrets, "<secret>")
    found |= of_netrc(environ)
    found |= hosts((socket.gethostname(), environ.get("HOSTNAME", "")))
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no such user in the container that we run in
        user = ""
    found |= _user(user)
    home = str(Path.home())
    if home.count("/") > 1:  # /root says nothing
        found[home] = "~"
    return found


def of_netrc(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The passwords and logins in this user's netrc -> what is put in their place."""
    logins = netrc_file.logins(os.environ if environ is None else environ).values()
    found = {word: replacement for login, _ in logins for word, replacement in _user(login).items()}
    return found | literals(password for _, password in logins)


def literals(words: Iterable[str]) -> dict[str, str]:
    """Secret words that someone knows, as they are written and as URLs write them -> what is put in their place."""
    forms = {form for word in words for form in (word, quote(word, safe=""), unquote(word))}
    return {form: "<secret>" for form in forms if len(form) >= _SHORTEST}


def of_url(url: str) -> dict[str, str]:
    """The password of a URL, or a user alone, which then is a token -> what is put in its place."""
    parts = urlsplit(url)
    word = parts.password if parts.password is not None else parts.username
    return literals([word] if word else ())


def without_passwords(text: str) -> str:
    """A setting as it is shown to the user whose setting it is: the passwords, or tokens, of its URLs are hidden."""

    def hide(match: re.Match[str]) -> str:
        user, colon, _ = match["login"].partition(":")
        return f"{match['scheme']}{user + colon if colon else ''}****@"

    def hide_value(match: re.Match[str]) -> str:
        secret = unquote(match["key"]).lower() in ("password", "sslpassword")  # as libpq takes one
        return f"{match['begin']}{match['key']}=****" if secret else match[0]

    text = re.sub(r"(?P<begin>[?&])(?P<key>[^=&?\s'\"]{8,33})=[^&\s'\"]*", hide_value, text)
    return patterns.BARE_LOGIN.sub(r"\1****@", patterns.URL_LOGIN.sub(hide, text))


def _user(name: str) -> dict[str, str]:
    """The name of a user -> what is put in its place, where it says who that is."""
    if len(name) < 2 or name.lower() in people_patterns.GENERIC | people_patterns.ROBOTS:
        return {}
    return {name: "<user>"} if _telling(name) else {f"{name}@": "<user>@"}


def _telling(name: str) -> bool:
    """Whether a name is hardly a word of something else: a host called dev must not be taken out of ``/dev/null``."""
    return re.search(r"[\d._-]", name) is not None or (len(name) >= 3 and not people_patterns.is_word(name))


Replace = Callable[[re.Match[str]], "tuple[str, ...] | None"]

ScrubStep = Callable[["_Scrubber", SeenText], SeenText]


class _Scrubber:
    """Replaces, and notes what and where."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.above = 0
        self._found: dict[tuple[str, int, str], None] = {}

    @property
    def omitted(self) -> list[Omitted]:
        """What was replaced, each kind in a line once."""
        return [
            Omitted(kind=kind, where=", ".join(part for part in (self.where, f"line {line}", more) if part))
            for kind, line, more in self._found
        ]

    def scrubbed(self, text: str, values: Mapping[str, str], steps: Sequence[ScrubStep], above: int | None) -> str:
        """``text``, which has ``above`` lines above it, after one pass; None: as it is."""
        if above is None:
            return text
        self.above = above
        for percent in (False, True) if private_view.ENCODED.search(text) else (False,):
            text = self.known(SeenText(text, text), values).text
            view = private_view.of(text, percent=percent)
            names = _learned(view.seen) if _Scrubber.people in steps else {}
            if view.raw is not view.seen:
                view = self.known(view, values)
            for step in steps:
                view = step(self, view)
            text = self.known(view, names).text
        return text

    def note(self, kind: str, line: int, name: str = "") -> None:
        self._found[kind, line, f"after {name}" if name else ""] = None

    def replace(self, pattern: re.Pattern[str], view: SeenText, put: Replace) -> SeenText:
        """Every match replaced by what ``put`` says: its kind, and the new text; None leaves it."""
        seen, raw = view.seen, view.raw
        differs = raw is not seen
        with_value = "value" in pattern.groupindex
        parts: list[str] = []
        raws: list[str | Sequence[str]] = []
        done = at = counted = 0
        line = 1 + self.above
        while match := pattern.search(seen, at):
            found = put(match)
            value = with_value and match["value"]
            if found is None or found[1] == match[0] or _REDACTED.fullmatch(value or match[match.lastgroup or 0] or ""):
                # What is not a secret behind a name may itself be a name and a secret.
                at = max(match.start("value") if value else match.end(), match.start() + 1)
                continue
            start, end = match.span()
            line += seen.count("\n", counted, start)
            counted = start
            self.note(found[0], line, *found[2:])
            parts += (seen[done:start], found[1])
            if differs:
                kept = _same(match[0], found[1])
                raws += (raw[done : start + kept], found[1][kept:])
            done = at = end
        if not parts:
            return view
        text = "".join([*parts, seen[done:]])
        return SeenText(text, _joined([*raws, raw[done:]]) if differs else text)

    def known(self, view: SeenText, values: Mapping[str, str]) -> SeenText:
        """Every known value replaced: of equal bounds together, longer ones first."""
        groups: dict[tuple[str, str], list[str]] = {}
        for value in sorted((value for value in values if len(value.strip()) > 2), key=len, reverse=True):
            groups.setdefault(_bounds(value, values[value]), []).append(value)
        for (before, after), words in groups.items():
            pattern = re.compile(f"{before}(?:{'|'.join(map(re.escape, words))}){after}")
            view = self.replace(pattern, view, lambda match: (_kind(values[match[0]]), values[match[0]]))
        return view

    def put(self, kind: str, pattern: re.Pattern[str], view: SeenText) -> SeenText:
        """Every match replaced by ``<kind>``, but for what its groups ``keep`` hold."""
        keeps = [name for name in ("keep", "keep2", "keep3") if name in pattern.groupindex]

        def put(match: re.Match[str]) -> tuple[str, str]:
            return kind, next((match[name] for name in keeps if match[name]), "") + f"<{kind}>"

        return self.replace(pattern, view, put)

    def blocks(self, view: SeenText) -> SeenText:
        if "-----BEGIN " in view.seen:
            view = self.put("private-key", patterns.PEM, view)
            view = self.put("pgp-block", patterns.PGP, view)
        return self.put("ssh-key", patterns.SSH_KEY, view) if " AAAA" in view.seen else view

    def in_urls(self, view: SeenText) -> SeenText:
        if "@" in view.seen:
            view = self.replace(patterns.IN_URL, view, lambda match: ("credentials", "<credentials>@"))
            view = self.put("credentials", patterns.IN_ADDRESS, view)
        return self.put("conda-token", patterns.CONDA, view) if "/t/" in view.seen else view

    def headers(self, view: SeenText) -> SeenText:
        return self.put("authorization", patterns.HEADER, view) if patterns.HEADER_HINT.search(view.seen) else view

    def typed(self, view: SeenText) -> SeenText:
        def put(match: re.Match[str]) -> tuple[str, str] | None:
            if patterns.NOTHING.fullmatch(match["value"] or match["value2"]):
                return None
            return "secret", f"{match['keep']}{match['quote'] or ''}<secret>"

        def option(match: re.Match[str]) -> tuple[str, str] | None:
            kept = patterns.typed_by(match)
            if kept is None or _REDACTED.fullmatch(match["value"], len(kept)):
                return None
            return "secret", _before(match) + kept + "<secret>"

        view = self.replace(patterns.OPTION, view, option)
        if patterns.TYPED_HINT.search(view.seen):
            view = self.replace(patterns.TYPED, view, put)
        for hint, pattern in ((".login(", patterns.CALLED), ("username", patterns.KAGGLE), ("</", patterns.ELEMENT)):
            view = self.put("secret", pattern, view) if hint in view.seen else view
        return view

    def tokens(self, view: SeenText) -> SeenText:
        def put(match: re.Match[str]) -> tuple[str, str]:
            kind = patterns.KINDS[str(match.lastgroup)]
            return kind, f"<{kind}>"

        def led(match: re.Match[str]) -> tuple[str, str] | None:
            return ("token", "<token>") if patterns.by_chance(match[0]) else None

        return self.replace(patterns.LED, self.replace(patterns.token(), view, put), led)

    def named(self, view: SeenText) -> SeenText:
        def put(match: re.Match[str]) -> tuple[str, str, str] | None:
            name = patterns.name_of(match)
            return ("secret", _before(match) + "<secret>", name) if _is_secret(match, name) else None

        def said(match: re.Match[str]) -> tuple[str, str] | None:
            if not _is_said(match):
                return None
            after = match.string[match.end("value") : match.end()]
            return "secret", _before(match) + "<secret>" + after

        if patterns.may_name(view.seen):
            view = self.put("secret", patterns.GUEST, view)
            view = self.replace(patterns.NAMED, view, put)
            view = self.replace(patterns.IN_WORDS, view, said)
        return self.replace(patterns.IN_CHINESE, view, said)

    def people(self, view: SeenText) -> SeenText:
        def prompt(match: re.Match[str]) -> tuple[str, str] | None:
            return ("host", f"{match['before']}{_as_user(match['user'])}@<host>") if match["user"] != "git" else None

        def elsewhere(match: re.Match[str]) -> tuple[str, str] | None:
            if not people_patterns.is_remote(match):
                return None
            return "host", f"{match['keep']}{_as_user(match['user'])}@<host>"

        def someone(match: re.Match[str]) -> tuple[str, str] | None:
            return ("user", "<user>") if _as_user(match["user"]) == "<user>" else None

        if "@" not in view.seen:
            return view
        view = self.replace(people_patterns.PROMPT, view, prompt)
        view = self.replace(people_patterns.AT_HOST, view, someone)
        view = self.replace(people_patterns.SSH, view, elsewhere)
        return self.put("email", people_patterns.EMAIL, view)

    def places(self, view: SeenText) -> SeenText:
        def home(match: re.Match[str]) -> tuple[str, str] | None:
            name = match["unix"] or match["windows"] or match["share"] or match["msys"]
            return None if name in people_patterns.KEPT_HOMES else ("home", "~")

        def ipv4(match: re.Match[str]) -> tuple[str, str] | None:
            before = match.string[max(0, match.start() - 24) : match.start()]
            if match[0].startswith("10.") and people_patterns.VERSION_BEFORE.search(before):
                return None
            return "address", "<address>"

        def mac(match: re.Match[str]) -> tuple[str, str] | None:
            part = re.search(r"[\w:.-]\Z", match.string[max(0, match.start() - 1) : match.start()], re.ASCII)
            return None if part or people_patterns.NO_MAC.fullmatch(match[0]) else ("mac-address", "<mac-address>")

        if people_patterns.has_homes(view.seen):
            view = self.replace(people_patterns.HOME, view, home)
        if people_patterns.INTERNAL_HINT.search(view.seen):
            view = self.put("host", people_patterns.INTERNAL, view)
        view = self.replace(people_patterns.IPV4, view, ipv4)
        view = self.put("address", people_patterns.IPV6, view)
        return self.replace(people_patterns.MAC, view, mac)

    def numbers(self, view: SeenText) -> SeenText:
        def id_card(match: re.Match[str]) -> tuple[str, str] | None:
            return ("id-number", "<id-number>") if people_patterns.is_id_card(match[0]) else None

        def messenger(match: re.Match[str]) -> tuple[str, str] | None:
            sure = match["sure"] or re.search(r"[\d_]", match["value"])
            if not sure or (match["qq"] and not re.fullmatch("[0-9]+", match["value"])):
                return None
            return "contact", f"{match['keep']}<contact>"

        def phone(match: re.Match[str]) -> tuple[str, str] | None:
            return ("phone", "<phone>") if people_patterns.is_phone(match) else None

        view = self.put("gpu-uuid", people_patterns.GPU, view)
        if people_patterns.HARDWARE_HINT.search(view.seen):
            view = self.put("serial", people_patterns.SERIAL, view)
            view = self.put("machine-id", people_patterns.MACHINE, view)
        view = self.replace(people_patterns.ID_CARD, view, id_card)
        view = self.replace(people_patterns.PHONE_CN, view, phone)
        view = self.put("phone", people_patterns.PHONE, view)
        if people_patterns.MESSENGER_HINT.search(view.seen):
            view = self.replace(people_patterns.MESSENGER, view, messenger)
        return view


def _same(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    most = min(len(one), len(other))
    return next((at for at in range(most) if one[at] != other[at]), most)


def _before(match: re.Match[str]) -> str:
    """What a match holds before its value."""
    return match[0][: match.start("value") - match.start()]


def _joined(raws: Sequence[str | Sequence[str]]) -> str | Sequence[str]:
    """One text of texts, or one list where what is seen is shorter than what is written."""
    texts = [raw for raw in raws if isinstance(raw, str)]
    return "".join(texts) if len(texts) == len(raws) else list(chain.from_iterable(raws))


_SECRET_STEPS = (
    _Scrubber.blocks,
    _Scrubber.in_urls,
    _Scrubber.headers,
    _Scrubber.typed,
    _Scrubber.tokens,
    _Scrubber.named,
)
_PEOPLE_STEPS = (_Scrubber.people, _Scrubber.places, _Scrubber.numbers)


def _as_user(name: str) -> str:
    return name if name.lower() in people_patterns.GENERIC else "<user>"


def _bounds(value: str, replacement: str) -> tuple[str, str]:
    """What must stand before and behind ``value``, so that it is not part of a longer word; a long secret is one
    wherever it is.
    """
    if replacement == "<secret>" and len(value) >= 8:
        return "", ""
    return "(?<![A-Za-z0-9])" if value[0].isalnum() else "", "(?![A-Za-z0-9])" if value[-1].isalnum() else ""


def _kind(replacement: str) -> str:
    return "home" if replacement == "~" else re.sub(r"[^\w-]", "", replacement)


def _is_secret(match: re.Match[str], name: str) -> bool:
    """Whether a value behind a name is one, rather than nothing, a placeholder or code."""
    value = match["value"]
    folder = name.lower() in ("pwd", "oldpwd") and value[0] in "/~."
    if folder or patterns.NOTHING.fullmatch(value):
        return False
    if not match["quote"]:
        after = match.string[match.end() : match.end() + 1]
        if patterns.CODE.fullmatch(value.rstrip(",")) or (after and after in "([") or _STRING.fullmatch(value + after):
            return False
    blank = match["apart"] and not match["apart"].strip(" \t\r\n\\")
    if blank and not (name.startswith("-") or name.isupper()):
        return False
    if patterns.RANDOM.fullmatch(value) or (name.startswith("-") and patterns.CERTAIN.search(name)):
        return True
    if match["apart"] and value.lower() in patterns.NOT_SAID:
        return False
    if blank and not match["quote"]:
        return False
    if match["apart"] and not blank and not _CELL.match(match.string, match.end()):
        return False
    return patterns.CERTAIN.search(name) is not None


_CELL = re.compile("[\"'`]?[ \t]{0,20}(?:[|\u2502]|$)", re.MULTILINE)
_STRING = re.compile("(?i)[frbu]{1,2}[\"']")


def _is_said(match: re.Match[str]) -> bool:
    """Whether a sentence gives a secret, rather than says something about it."""
    value = match["value"].rstrip(".,!?:*`")
    before = match.string[max(0, match.start() - 1) : match.start()]
    if match.re is patterns.IN_WORDS and re.match(r"[\w.$-]", before, re.ASCII):
        return False
    if len(value) < 3 or patterns.NOTHING.fullmatch(value) or patterns.CODE.fullmatch(value):
        return False
    if (
        value.lower() in patterns.NOT_SAID
        or value[0] in "/~.$%<{-"
        or (not match["quote"] and match["after"].endswith(("(", "[", '"', "'")))
    ):
        return False
    return not (re.fullmatch("[0-9]+", value) and match["after"].strip())
