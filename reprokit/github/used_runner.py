"""What a runner holds that an untrusted case must not meet: images, caches and credentials of someone else.

A container keeps a case from most of it, and a build can still use an image or a cache, and an escape reaches the
rest. A runner that is made for one job holds nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from reprokit.core import netrc_file, redaction
from reprokit.core.errors import EngineError, UsageError
from reprokit.core.home import home, is_file
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.protocol import BASE, IMAGE
from reprokit.engine.registry import find_engine
from reprokit.engine.site import network, pipconfig
from reprokit.run.keeping import MEASUREMENT, REMAINS, TEMPLATES, TEMPORARY, holders

VARIABLE = "RUNNER_MAY_HOLD"
"""The repository's variable that names, with commas, what its runners may hold all the same."""
KINDS = ("images", "caches", "credentials")

FILES = (
    *(".ssh/id_rsa", ".ssh/id_ed25519", ".ssh/id_ecdsa", ".git-credentials", ".config/git/credentials", ".pypirc"),
    *(".docker/config.json", ".config/containers/auth.json", ".config/gh/hosts.yml", ".npmrc", ".kube/config"),
    *(".aws/credentials", ".azure/msal_token_cache.json", ".config/gcloud/application_default_credentials.json"),
    *(".config/gcloud/credentials.db", ".cache/huggingface/token", ".conda/.condarc", ".cargo/credentials.toml"),
)
"""Where programs keep a user's credentials, below the home folder."""

_SMALL = (MEASUREMENT, TEMPLATES, TEMPORARY, REMAINS)
_OF_THE_RUNNER = ("GITHUB_", "RUNNER_", "ACTIONS_", "INPUT_")


def check(environ: Mapping[str, str], scratch: Path) -> None:
    """Raises UsageError where this runner is not fit for an untrusted case. ``scratch``: the folder of this run."""
    allowed = frozenset(word.strip() for word in environ.get(VARIABLE, "").split(",") if word.strip())
    if unknown := allowed - {*KINDS}:
        raise UsageError(f"{VARIABLE}: expected a list of {', '.join(KINDS)}; found {', '.join(sorted(unknown))}")
    if environ.get("RUNNER_ENVIRONMENT") == "github-hosted":
        return  # made for this job by GitHub
    try:
        engine = find_engine(environ)
    except EngineError:
        engine = None
    if reason := refusal(held(environ, engine, scratch), allowed):
        raise UsageError(reason)


def refusal(found: Mapping[str, tuple[str, ...]], allowed: frozenset[str]) -> str:
    """Why a runner that holds that is not fit for an untrusted case, and what to do; '' where it is. Pure."""
    wrong = {kind: things for kind, things in found.items() if things and kind not in allowed}
    if not wrong:
        return ""
    said = "; ".join(
        f"{kind}: {', '.join(things[:5])}{', ...' if things[5:] else ''}" for kind, things in wrong.items()
    )
    return (
        f"nothing was run: this runner was used before or belongs to a person, and an untrusted case could reach what "
        f"it holds ({said}). Use a runner that is made for one job (config.sh --ephemeral, on a new machine), or set "
        f"the repository's variable {VARIABLE} to what it may hold: {','.join([*sorted(allowed), *wrong])}"
    )


def held(environ: Mapping[str, str], engine: DockerEngine | None, scratch: Path) -> dict[str, tuple[str, ...]]:
    """What this host holds, by kind, in words without any secret."""
    return {
        "images": tuple(_images(engine)) if engine else (),
        "caches": tuple(_caches(engine, scratch)),
        "credentials": tuple(dict.fromkeys(_credentials(environ))),
    }


def _images(engine: DockerEngine) -> Iterator[str]:
    with engine.wire.errors():
        listed = engine.wire.client().images()
    for one in listed:
        yield next((name for name in one.get("RepoTags") or () if name != "<none>:<none>"), str(one.get("Id"))[:19])


def _caches(engine: DockerEngine | None, scratch: Path) -> Iterator[str]:
    counts: dict[str, int] = {}
    for holder in holders(engine, scratch):
        for one in holder.kept():
            if one.kind not in (*_SMALL, IMAGE, BASE):
                counts[one.kind] = counts.get(one.kind, 0) + 1
    yield from (f"{kind} ({count})" for kind, count in counts.items())


def _credentials(environ: Mapping[str, str]) -> Iterator[str]:
    if (logins := netrc_file.path(environ)) is not None:
        yield str(logins)
    yield from (f"~/{file}" for file in FILES if is_file(home(environ) / file))
    if environ.get("SSH_AUTH_SOCK"):
        yield "the SSH agent of SSH_AUTH_SOCK"
    options = pipconfig.read_with_origins(environ)
    for name, (value, origin) in options.items():
        if name == "client-cert" or any(map(_has_login, value.split())):
            yield f"pip's {name} ({origin})"
    yield from (name for name, value in network.proxies(environ).items() if _has_login(value))
    for name, value in environ.items():
        if redaction.secret_variable(name, value) and value and not name.startswith(_OF_THE_RUNNER):
            yield f"the variable {name}"


def _has_login(url: str) -> bool:
    try:
        return bool(redaction.of_url(url if "://" in url else f"//{url}"))
    except ValueError:
        return True
