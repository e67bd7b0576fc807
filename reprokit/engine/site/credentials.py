"""Credentials of package indexes, handed on to builds for the named hosts only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reprokit.core import netrc_file


def netrc_for(hosts: Iterable[str], environ: Mapping[str, str]) -> bytes:
    """The netrc entries of those hosts; b'' when there are none.

    Only of hosts that the host's pip configuration names: a build runs untrusted code (setup.py), and a netrc holds
    tokens for other places as well.
    """
    known = netrc_file.logins(environ)
    lines = [
        f"machine {host} login {_quoted(known[host][0])} password {_quoted(known[host][1])}\n"
        for host in sorted(set(hosts))
        if host in known
    ]
    return "".join(lines).encode()


def _quoted(word: str) -> str:
    # Quotes only where nothing else will do: Pythons before 3.11, which a build may have, know none in a netrc.
    word = word.replace("\\", "\\\\")
    if word and not word.startswith('"') and not any(char.isspace() for char in word):
        return word
    return '"' + word.replace('"', '\\"') + '"'
