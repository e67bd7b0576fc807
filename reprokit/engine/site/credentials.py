"""Credentials of package indexes: found in URLs and netrc, handed on for the named hosts only, hidden from output."""

from __future__ import annotations

import netrc
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reprokit.core.home import home, is_file

HIDDEN = "****"
_LOGIN = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)(?P<login>[^\s/?#'\"]*)@")
_BARE_LOGIN = re.compile(r"(?<![\w./%+-])([\w.%+-]+:)[^\s/@'\"]+@")  # of an address without scheme
_SHORTEST = 4  # shorter words would blot out ordinary output


def netrc_for(hosts: Iterable[str], environ: Mapping[str, str]) -> bytes:
    """The netrc entries of those hosts; b'' when there are none.

    Only of hosts that the host's pip configuration names: a build runs code of strangers (setup.py), and a netrc holds
    tokens for other places as well.
    """
    path = netrc_file(environ)
    if path is None:
        return b""
    try:
        known = netrc.netrc(str(path)).hosts
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError):
        return b""  # requests, and so pip, ignores a broken one
    lines = [
        f"machine {host} login {_quoted(known[host][0])} password {_quoted(known[host][2] or '')}\n"
        for host in sorted(set(hosts))
        if host in known
    ]
    return "".join(lines).encode()


def netrc_file(environ: Mapping[str, str]) -> Path | None:
    """The netrc in force: ``$NETRC``, else the home folder's; None without one."""
    named = environ.get("NETRC")
    candidates = [Path(named).expanduser()] if named else [home(environ) / ".netrc", home(environ) / "_netrc"]
    return next((path for path in candidates if is_file(path)), None)


def _quoted(word: str) -> str:
    # Quotes only where nothing else will do: Pythons before 3.11, which a build may have, know none in a netrc.
    word = word.replace("\\", "\\\\")
    if word and not word.startswith('"') and not any(char.isspace() for char in word):
        return word
    return '"' + word.replace('"', '\\"') + '"'


def secrets_of(url: str) -> set[str]:
    """The words of a URL that must not be shown, as written and decoded: its password, or a user alone (a token)."""
    parts = urlsplit(url)
    word = parts.password if parts.password is not None else parts.username
    return {word, unquote(word)} if word else set()


def blotted(text: str) -> str:
    """The text with the passwords, or the tokens, of the URLs in it blotted out."""

    def hide(match: re.Match[str]) -> str:
        user, colon, _ = match["login"].partition(":")
        return f"{match['scheme']}{user + colon if colon else ''}{HIDDEN}@"

    return _BARE_LOGIN.sub(rf"\1{HIDDEN}@", _LOGIN.sub(hide, text))


def redactor(words: Iterable[str]) -> Callable[[str], str]:
    """A function that blots those words out of a text."""
    hidden = sorted({word for word in words if len(word) >= _SHORTEST}, key=len, reverse=True)

    def redact(text: str) -> str:
        for word in hidden:
            text = text.replace(word, HIDDEN)
        return text

    return redact
