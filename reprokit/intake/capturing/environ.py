"""The environment variables of a captured command that a fresh login shell would not have."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from reprokit.core.redaction import Omitted, scrub, secret_variable

SECONDS = 20

SESSION = re.compile(
    r"_|PWD|OLDPWD|SHLVL|PATH|HOME|USER|LOGNAME|USERNAME|SHELL|MAIL|HOST(?:NAME|TYPE)?|TERM\w*|COLORTERM|COLUMNS|LINES"
    r"|DISPLAY|WAYLAND_\w+|XAUTHORITY|EDITOR|VISUAL|PAGER|MANPATH|INFOPATH|LS_COLORS|LESS\w*|HIST\w+|PS\d|PROMPT\w*"
    r"|(?:SSH|XDG|DBUS|GPG|GNOME|KDE|GTK|QT|DESKTOP|WINDOW|VTE|TMUX|STY|SUDO|VSCODE|JUPYTER|JPY|NVM|KITTY|ITERM)_?\w*"
    r"|VIRTUAL_ENV\w*|CONDA\w*|_CE_\w+|PYENV\w*|UV(?:_\w+)?|PIP_\w+|POETRY_\w+|npm_\w+|NPM_\w+|NODE\w*|GIT_\w+|DOCKER_\w+"
    r"|(?:https?|ftp|all|no)_proxy|(?:HTTPS?|FTP|ALL|NO)_PROXY|\w*_CA_BUNDLE|SSL_CERT_\w+|TMPDIR|TEMP|TMP|TZ|BASH\w*"
    r"|(?:CLOUD_?SDK|GOOGLE|GCP|GCE|AWS|AZURE|KUBERNETES|GITHUB|GITLAB|RUNNER|CI|JENKINS|BUILDKITE|CODESPACES?)(?:_\w+)?"
    r"|(?:TOX|RUST|RUSTUP|CARGO|GO|JAVA|MAVEN|GRADLE|RUBY|GEM|HOMEBREW|NIX|SNAP|FLATPAK|CONTAINER|SANDBOX)_?\w*"
    r"|\w*_SANDBOX|\w*(?:_CA|CERT)S?(?:_\w+)?|\w*SSL_ROOTS\w*|\w*(?:HOST|POD|NODE|CLUSTER|MACHINE)_?NAME"
    r"|REPROKIT_\w+|WSL\w*|LSCOLORS|LC_\w+|LANG|LANGUAGE|DEBIAN_FRONTEND|INVOCATION_ID|JOURNAL_STREAM|MOTD\w*|container"
)
"""Variables of a terminal, a session or an installation, which do not affect the program."""
_PLACE = re.compile(r"(?:^|[:=,;\s])(?:/(?!dev/|proc/|tmp(?:[:;,\s]|$)|usr/|etc/|opt/)|~|[A-Za-z]:\\)[\w.]")
"""A folder of this machine; folders that every distribution has do not match."""


@dataclass
class Variables:
    """``values``: for the case. ``omitted``: secret ones. ``places``: names of those with folders of this machine."""

    values: dict[str, str] = field(default_factory=dict)
    omitted: list[Omitted] = field(default_factory=list)
    places: list[str] = field(default_factory=list)


def of_login_shell() -> dict[str, str]:
    """The variables of a login shell with an empty environment; {} where it fails."""
    kept = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME") if name in os.environ}
    try:
        done = subprocess.run(
            ["bash", "-lc", "env -0"],
            env=kept,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.partition("=") for line in done.stdout.decode("utf-8", "replace").split("\0"))
    return {name: value for name, equals, value in pairs if equals}


def differing(
    environ: Mapping[str, str], login: Mapping[str, str], folder: str, *, known: Mapping[str, str] | None = None
) -> Variables:
    """The variables of ``environ`` that differ from ``login``; paths below ``folder`` become relative. Pure.

    ``known``: private text of this machine -> its replacement.
    """
    found = Variables()
    for name, value in sorted(environ.items()):
        if login.get(name) == value:
            continue
        if SESSION.fullmatch(name) or not re.fullmatch(r"[A-Za-z_]\w*", name):
            continue
        if secret_variable(name, value):
            found.omitted.append(Omitted(kind="secret", where=f"the environment variable {name}"))
        else:
            _add(found, name, value, folder, known or {})
    return found


def _add(found: Variables, name: str, value: str, folder: str, known: Mapping[str, str]) -> None:
    inside = re.sub(
        rf"(?<![\w/]){re.escape(folder)}(?=[/:]|$)/?", lambda match: "" if match[0].endswith("/") else ".", value
    )
    scrubbed = scrub(inside, known=known, where=f"the environment variable {name}")
    if _PLACE.search(inside):
        found.places.append(name)
    elif scrubbed.omitted:
        found.omitted += scrubbed.omitted
    else:
        found.values[name] = inside
