"""Texts without what is secret and without what says who and where someone is.

Build logs, reports, drafts, shares and pages all go through :func:`scrub`; what it looks for is in
:mod:`.private_patterns`. Pure, but for :func:`of_this_host` and :func:`of_netrc`, which read what this host knows.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from reprokit.core import netrc_file
from reprokit.core import private_patterns as patterns

_SHORTEST = 4
"""Characters of a secret word; shorter ones would take ordinary words out of a text."""
_PASSES = 5
"""What was put in place of one thing may end the word that hid another."""


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
    report is made of it. ``where``: what the text is, for the list of what was left out, whose entries never hold a
    value. Equal values get equal replacements, and scrubbing again changes nothing.
    """
    scrubber = _Scrubber(where)
    values = known if isinstance(known, Mapping) else dict.fromkeys(known, "<secret>")
    if whole := values.get(f"@{text}"):  # a word, and all of the text
        scrubber.note("host", 1)
        return Scrubbed(text=whole.removeprefix("@"), omitted=tuple(scrubber.omitted))
    for _ in range(_PASSES):
        before = text
        text = scrubber.known(text, values)
        for step in (*_SECRET_STEPS, *_PEOPLE_STEPS) if people else _SECRET_STEPS:
            text = step(scrubber, text)
        if text == before:
            break
    return Scrubbed(text=text, omitted=tuple(scrubber.omitted))


def secret_variable(name: str, value: str) -> bool:
    """Whether a variable is taken for a secret: whatever its value (``HF_TOKEN``, ``db_password``), or by its value
    where the name only speaks of one (``SECRET_KEY_BASE``, ``GITHUB_PAT``).
    """
    if re.search(rf"(?i)(?:{patterns.ALWAYS}|token|[_-]key|pass|[_-]auth)(?:s|_id|_file|_path)?$", name):
        return True
    speaks = re.search(rf"(?i){patterns.AMIDST}(?![a-z])|(?:key|pass|pwd|auth)_?\d+$", name)
    return bool(speaks and _says_something(value))


def _says_something(value: str) -> bool:
    return len(value) >= 6 and not patterns.NOTHING.fullmatch(value) and not value.isdigit()


_OTHERS = ("private-key", "conda-token", "credentials", "authorization", "secret", "user", "host", "email")
STANDS = re.compile(f"<({'|'.join((*patterns.TOKENS, *_OTHERS))})>")
"""What :func:`scrub` puts in the place of something, but for the ``~`` of home directories."""


_REDACTED = re.compile(r"REDACTED_[A-Z_]{3,40}@?")
_VALUES = frozenset({"value", "value2", "value3"})


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
    found: dict[str, str] = {}
    for host in (host for name in names for host in (name, name.partition(".")[0])):
        if host and host.lower() not in patterns.GENERIC:
            found |= {host: "<host>"} if _telling(host) else {f"@{host}": "@<host>", f"://{host}": "://<host>"}
    return found


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

    text = re.sub(r"([?&](?:ssl)?password=)[^&\s'\"]*", r"\1****", text)  # as libpq takes one
    return patterns.BARE_LOGIN.sub(r"\1****@", patterns.URL_LOGIN.sub(hide, text))


def _user(name: str) -> dict[str, str]:
    """The name of a user -> what is put in its place, where it says who that is."""
    if not name or name.lower() in patterns.GENERIC | patterns.ROBOTS:
        return {}
    return {name: "<user>"} if _telling(name) else {f"{name}@": "<user>@"}


def _telling(name: str) -> bool:
    """Whether a name is hardly a word of something else: a host called dev must not be taken out of ``/dev/null``."""
    return len(name) >= 8 or re.search(r"[\d._-]", name) is not None


class _Scrubber:
    """Replaces, and notes what and where."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.omitted: list[Omitted] = []

    def note(self, kind: str, line: int, more: str = "") -> None:
        parts = [self.where, f"line {line}", more]
        self.omitted.append(Omitted(kind=kind, where=", ".join(part for part in parts if part)))

    def replace(
        self, pattern: re.Pattern[str], text: str, put: Callable[[re.Match[str]], tuple[str, str] | None]
    ) -> str:
        """Every match replaced by what ``put`` says: its kind, and the new text; None leaves it."""
        ends = list[int]()  # of lines, looked for once something is found
        parts: list[str] = []
        done = at = 0
        while match := pattern.search(text, at):
            found = put(match)
            value = next((match[name] for name in _VALUES & pattern.groupindex.keys() if match[name]), match[0])
            if found is None or found[1] == match[0] or _REDACTED.fullmatch(value):
                # What is not a secret behind a name may itself be a name and a secret.
                at = match.start("value") if "value" in pattern.groupindex else max(match.end(), at + 1)
                continue
            ends = ends or [end.end() for end in re.finditer("\n|$", text)]
            name = match.groupdict().get("name")
            self.note(found[0], bisect_right(ends, match.start()) + 1, f"after {name}" if name else "")
            parts += [text[done : match.start()], found[1]]
            done = at = match.end()
        return "".join([*parts, text[done:]])

    def known(self, text: str, values: Mapping[str, str]) -> str:
        longest = sorted((value for value in values if len(value.strip()) > 2), key=len, reverse=True)
        if not longest:
            return text
        pattern = re.compile("|".join(_as_word(value, values[value]) for value in longest))
        return self.replace(pattern, text, lambda match: (_kind(values[match[0]]), values[match[0]]))

    def private_keys(self, text: str) -> str:
        return self.replace(patterns.PEM, text, lambda match: ("private-key", "<private-key>"))

    def in_urls(self, text: str) -> str:
        text = self.replace(patterns.IN_URL, text, lambda match: ("credentials", "<credentials>@"))
        text = self.replace(patterns.IN_ADDRESS, text, lambda match: ("credentials", "<credentials>"))
        return self.replace(patterns.CONDA, text, lambda match: ("conda-token", "<conda-token>"))

    def headers(self, text: str) -> str:
        def put(match: re.Match[str]) -> tuple[str, str] | None:
            kept = match["keep"] or match["keep2"] or match["keep3"]
            return "authorization", f"{kept}<authorization>"

        return self.replace(patterns.HEADER, text, put)

    def typed(self, text: str) -> str:
        def put(match: re.Match[str]) -> tuple[str, str]:
            return "secret", f"{match['keep'] or match['keep2']}<secret>"

        return self.replace(patterns.TYPED, text, put)

    def tokens(self, text: str) -> str:
        def put(match: re.Match[str]) -> tuple[str, str]:
            kind = patterns.KINDS[str(match.lastgroup)]
            return kind, f"<{kind}>"

        return self.replace(patterns.TOKEN, text, put)

    def named(self, text: str) -> str:
        if not patterns.HINT.search(text):
            return text

        def put(match: re.Match[str]) -> tuple[str, str] | None:
            if not _is_secret(match):
                return None
            return "secret", match[0][: match.start("value") - match.start()] + "<secret>"

        return self.replace(patterns.NAMED, text, put)

    def people(self, text: str) -> str:
        def prompt(match: re.Match[str]) -> tuple[str, str] | None:
            user = match["user"] if match["user"].lower() in patterns.GENERIC else "<user>"
            return ("host", f"{match['before']}{user}@<host>") if match["user"] != "git" else None

        def elsewhere(match: re.Match[str]) -> tuple[str, str]:
            user = match["user"] if match["user"].lower() in patterns.GENERIC else "<user>"
            return "host", f"{match['keep']}{user}@<host>"

        def someone(match: re.Match[str]) -> tuple[str, str] | None:
            return None if match["user"].lower() in patterns.GENERIC else ("user", "<user>")

        text = self.replace(patterns.PROMPT, text, prompt)
        text = self.replace(patterns.AT_HOST, text, someone)
        text = self.replace(patterns.SSH, text, elsewhere)
        return self.replace(patterns.EMAIL, text, lambda match: ("email", "<email>"))

    def places(self, text: str) -> str:
        def home(match: re.Match[str]) -> tuple[str, str] | None:
            name = match["unix"] or match["windows"] or match["msys"]
            return None if name in patterns.KEPT_HOMES else ("home", "~")

        text = self.replace(patterns.HOME, text, home)
        return self.replace(patterns.INTERNAL, text, lambda match: ("host", "<host>"))


_SECRET_STEPS = (
    _Scrubber.private_keys,
    _Scrubber.in_urls,
    _Scrubber.headers,
    _Scrubber.typed,
    _Scrubber.tokens,
    _Scrubber.named,
)
_PEOPLE_STEPS = (_Scrubber.people, _Scrubber.places)


def _as_word(value: str, replacement: str) -> str:
    """A pattern for ``value`` where it is not part of a longer word; a long secret is one wherever it is."""
    if replacement == "<secret>" and len(value) >= 8:
        return re.escape(value)
    before = "(?<![A-Za-z0-9])" if value[0].isalnum() else ""
    return before + re.escape(value) + ("(?![A-Za-z0-9])" if value[-1].isalnum() else "")


def _kind(replacement: str) -> str:
    return "home" if replacement == "~" else re.sub(r"[^\w-]", "", replacement)


def _is_secret(match: re.Match[str]) -> bool:
    """Whether a value behind a name is one, rather than nothing, a placeholder or code."""
    name, value, text = match["name"], match["value"], match.string
    folder = name.lower() in ("pwd", "oldpwd") and value[0] in "/~."
    if folder or patterns.NOTHING.fullmatch(value):
        return False
    if not match["quote"]:
        after = text[match.end() :][:2]
        if patterns.CODE.fullmatch(value.rstrip(",")) or re.match(r"[(\[]|f?[\"']", after):
            return False
    return bool(patterns.CERTAIN.search(name) or patterns.RANDOM.fullmatch(value))
