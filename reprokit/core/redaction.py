r"""Texts without what is secret and without what says who and where somebody is. Pure, but for :func:`of_this_host`.

Tokens are known by the formats that their makers publish. Own table rather than detect-secrets: of the 27 kinds
below it knows 15 (no Hugging Face, Google, Docker Hub or Conda), of a private key it finds the first line only, and its
entropy rules take digests and commits, which reports are full of, for secrets. Nothing here goes by entropy.

Every pattern is bounded or possessive in effect, so that the time is linear in the length of the text.
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

_TOKENS: dict[str, str] = {
    "github-token": r"gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{20,255}",
    "gitlab-token": r"gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|oas|imt|ffct)-[A-Za-z0-9_.=-]{20,300}",
    "huggingface-token": r"(?:hf|api_org)_[A-Za-z0-9]{30,40}",
    "aws-access-key": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
    "google-api-key": r"AIza[A-Za-z0-9_-]{35}",
    "google-oauth": r"ya29\.[A-Za-z0-9_-]{20,2000}|GOCSPX-[A-Za-z0-9_-]{20,40}|1//0[A-Za-z0-9_-]{30,200}",
    "slack-token": r"xox[abceoprs][-.][A-Za-z0-9.-]{10,500}|xapp-\d-[A-Za-z0-9-]{10,500}",
    "slack-webhook": r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,200}",
    "discord-webhook": r"discord(?:app)?\.com/api/webhooks/\d{5,30}/[A-Za-z0-9_-]{20,100}",
    "anthropic-key": r"sk-ant-[A-Za-z0-9_-]{16,300}",
    "openai-key": r"sk-(?:(?:proj|svcacct|admin|service|None|or-v1)-[A-Za-z0-9_-]{16,300}|[A-Za-z0-9]{20,200})",
    "stripe-key": r"(?:sk|rk|pk)_(?:live|test|prod)_[A-Za-z0-9]{10,250}|whsec_[A-Za-z0-9+/=]{20,100}",
    "npm-token": r"npm_[A-Za-z0-9]{36}",
    "pypi-token": r"pypi-[A-Za-z0-9_-]{50,1000}",
    "docker-token": r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,100}",
    "digitalocean-token": r"do[opr]_v1_[a-f0-9]{64}",
    "databricks-token": r"dapi[a-f0-9]{32}(?:-\d)?",
    "replicate-token": r"r8_[A-Za-z0-9]{37}",
    "groq-key": r"gsk_[A-Za-z0-9]{40,60}",
    "sendgrid-key": r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}",
    "twilio-key": r"SK[0-9a-f]{32}",
    "telegram-token": r"\d{8,10}:AA[A-Za-z0-9_-]{33}",
    "vault-token": r"hv[sbr]\.[A-Za-z0-9_-]{20,300}",
    "atlassian-token": r"ATATT3[A-Za-z0-9_=-]{50,300}",
    "age-key": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    "pem": r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]{16,20000}",  # in base64, as kubeconfig has keys and certificates
    "jwt": r"eyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,8000}(?:\.[A-Za-z0-9_-]{0,4000})?",
}
_KINDS = {f"t{number}": kind for number, kind in enumerate(_TOKENS)}
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    + "|".join(f"(?P<t{number}>{pattern})" for number, pattern in enumerate(_TOKENS.values()))
    + ")+"  # one right behind another: by itself it would not begin a word
)
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]|-(?!----))*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\\n|\s){1,4}[A-Za-z0-9+/=]{16,200})*)"
)
_CONDA = re.compile(r"(?<=/t/)[a-z]{2}-[0-9a-f]{8}-[0-9a-f-]{20,40}(?=/)")
_IN_URL = re.compile(r"(?<=://)(?!git@)[^\s/?#'\"<>`|\\]{1,300}@")
_IN_ADDRESS = re.compile(
    r"(?<![\w.+@:/-])[\w.+-]{1,60}:[^\s@/:'\"<>`|\\]{1,100}(?=@(?!sha\d)[A-Za-z0-9][A-Za-z0-9.-]{0,100}:\d{2,5}(?!\d))",
    re.ASCII,
)
"""Of a proxy without a scheme: ``user:password@host:3128``."""
_TYPED = re.compile(
    r"(?P<keep>\bcurl\b[^\n|;]{0,300}?[ \t](?:-[uU]|--user|--proxy-user)(?:[ \t]{1,4}|=)?[\"']?[\w.@+-]{1,60}:)"
    r"(?P<value>[^\s\"'<>]{1,200})"
    r"|(?P<keep2>\bsshpass[ \t]{1,4}-p[ \t]{0,4}|\bmysql(?:dump|admin)?\b[^\n|;]{0,200}?[ \t]-p"
    r"|\b(?:machine[ \t]{1,4}\S{1,100}|default)\s{1,8}login\s{1,8}\S{1,100}\s{1,8}password\s{1,8})"
    r"(?P<value2>[^\s<>\"'()-][^\s<>\"'()]{0,200})"
)
"""Passwords as commands and ``.netrc`` have them."""
_SCHEME = r"(?:bearer|basic|token|digest|negotiate|apikey)\s{1,4}"
_HEADER = re.compile(
    rf"(?i)(?P<keep>\b(?:proxy-)?authorization[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?(?:{_SCHEME})?)(?!{_SCHEME})(?P<value>[^\s\"'<>]{{4,4000}})"
    r"|(?P<keep2>\bbearer\s{1,4})(?P<value2>[A-Za-z0-9._~+/-]{12,4000}={0,2})"
    r"|(?P<keep3>\b(?:set-)?cookie[\"']?\s{0,4}:\s{0,4}[\"']?)(?P<value3>[^\r\n\"'<>]{4,4000})"
)

_ALWAYS = (
    "secret|passwd|password|passphrase|[_-]pwd|credentials?|apikey|api[_-](?:key|secret)"
    "|x-(?:amz|goog)-(?:signature|credential)"
    "|(?:access|secret|private|auth|account|encryption|signing|license|session|client|wandb|kaggle)[_-]?key"
    "|(?:access|auth|api|private|session|security|refresh|bearer)[_-]?token"
)
"""Ends of names whose values are secret whatever they look like."""
_CERTAIN = re.compile(rf"(?i:{_ALWAYS})$|(?:TOKEN|_KEY|PASS)$")
_AMIDST = (
    r"(?<![A-Z\d])(?:SECRETS?|TOKENS?|PASSWORD|PASSWD|CRED(?:ENTIAL)?S?|PAT|JWT|COOKIE|API_?KEY|ACCESS_KEY|DSN|WEBHOOK)"
)
"""Words that make secret what stands for a variable where it looks like a secret, whatever follows them."""
_HINT = re.compile("(?i)secret|pass|pwd|cred|key|token|x-amz|x-goog|sig|auth|jwt|cookie|_pat|dsn|webhook")
_NAMED = re.compile(
    rf"(?<![\w.-])(?P<name>(?P<option>--?)?[\w.-]{{0,80}}(?:(?i:{_ALWAYS}|token|(?<![a-z])(?:auth|pwd)|(?<=[?&])sig(?:nature)?)"
    rf"|(?<=_)KEY|PASS|{_AMIDST}(?:_[A-Z\d]{{1,16}}){{0,3}}))"
    r"(?:\\?[\"']?(?:[ \t]{0,4}:[ \t]{0,4}[A-Za-z]{1,20}(?=[ \t]{0,4}=))?[ \t]{0,4}(?:={1,3}>?|:=?)[ \t]{0,4}"
    r"|(?(option)[ \t]{1,4}|(?!)))"
    r"(?P<quote>\\?[\"'])?(?P<value>(?(quote)[^\"'\\\r\n]|[^\s\"'&;|()\[\]{}<>\\]){1,4000})"
)
_CODE = re.compile(r"(?i)(?:[\w.]{0,100}[._])?(?:secret|passw(?:or)?d|passphrase|pwd|key|token|credentials?)")
_NOTHING = re.compile(
    r"(?i)(?:true|false|yes|no|on|off|none|null|nil|str|int|bytes|bool|string|optional|any|\*+|\.+|x{3,}|[$%].*|-.*|~.*"
    r"|<[^>]{0,60}>)[,.]?"
)
_RANDOM = re.compile(r"(?=[^\d]{0,60}\d)(?=[^A-Za-z]{0,60}[A-Za-z])[\w~+/.=!@#$%^*,-]{8,4000}", re.ASCII)

_KEPT_HOMES = frozenset({"repro", "linuxbrew", "Shared", "Public", "Default"})
_HOME = re.compile(
    r"(?:(?<![\w.~/-])|(?<=-[A-Za-z])|(?<=file://))(?:/[\w.-]{1,40}){0,2}/(?:home|Users)/(?P<unix>\w[\w-]*(?:\.[\w-]+)*)"
    r"|(?<![A-Za-z])[A-Za-z]:(?:\\{1,2}|/)Users(?:\\{1,2}|/)(?P<windows>\w[\w-]*(?:[. ][\w-]+){0,3}(?=[\\/])|\w[\w.-]*)"
    r"|(?<![\w.~/-])/[a-z]/Users/(?P<msys>\w[\w.-]*)",
    re.MULTILINE,
)
_PROMPT = re.compile(
    r"^(?P<before>(?:\([\w./ -]{1,60}\) ?)?\[?)(?P<user>[A-Za-z_][\w.-]{0,40})@(?P<host>[A-Za-z0-9][\w.-]{0,80})"
    r"(?=(?::[^\n#$%>]{0,200}|[ ][^\n#$%>@:]{0,80}\]?)[#$%>])",
    re.MULTILINE,
)
_SSH = re.compile(
    r"(?P<keep>\b(?:ssh|scp|sftp|rsync|mosh)\b[^\n|;&@]{0,200}[ \t=\"'])(?!git@)(?P<user>[A-Za-z_][\w.-]{0,40})@"
    r"[A-Za-z0-9][\w.-]{0,80}"
)
_EMAIL = re.compile(
    r"(?<![\w.+/:-])(?!git@)[A-Za-z0-9_][\w.+-]{0,63}@(?=[A-Za-z])[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,5}\.[A-Za-z]{2,24}\b",
    re.ASCII,
)
_INTERNAL = re.compile(
    r"(?<![\w.-])(?:(?=[a-z]{0,60}[\d-])[a-z\d][a-z\d-]{0,62}(?:\.[a-z\d-]{1,63}){0,4}\.(?:local|internal|private)"
    r"|[a-z\d][a-z\d-]{0,62}(?:\.[a-z\d-]{1,63}){0,4}\.(?:lan|corp|intranet|localdomain|home\.arpa))(?![\w(-]|\.\w)"
)
_GENERIC = frozenset(
    {"localhost", "host", "server", "node", "desktop", "laptop", "docker", "builder", "runner", "build", "test"}
    | {"user", "users", "root", "admin", "nobody", "vagrant", "jovyan", "work", "data", "main", "home", "repro"}
    | {"ubuntu", "debian", "linux", "python", "conda", "gpu", "cuda", "torch", "pytorch", "paddle"}
)
"""Names of hosts and users that say nothing, and stand in texts for other things."""


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


def scrub(text: str, *, known: Collection[str] = (), where: str = "") -> Scrubbed:
    """``text`` with what is secret or private replaced: tokens by ``<kind>``, home directories by ``~``.

    ``known``: values to be taken out wherever they stand; a mapping says what is put in their place (``<secret>``
    else). ``where``: what the text is, for the list of what was left out, whose entries never hold a value. Equal
    values get equal replacements, and scrubbing again changes nothing.
    """
    scrubber = _Scrubber(where)
    values = known if isinstance(known, Mapping) else dict.fromkeys(known, "<secret>")
    if whole := values.get(f"@{text}"):  # a word, and all of the text
        scrubber.note("host", 1)
        return Scrubbed(text=whole.removeprefix("@"), omitted=tuple(scrubber.omitted))
    for _ in range(_PASSES):
        before = text
        text = scrubber.known(text, values)
        for step in _STEPS:
            text = step(scrubber, text)
        if text == before:
            break
    return Scrubbed(text=text, omitted=tuple(scrubber.omitted))


def secret_variable(name: str, value: str) -> bool:
    """Whether a variable is taken for a secret: whatever its value (``HF_TOKEN``, ``db_password``), or by its value
    where the name only speaks of one (``SECRET_KEY_BASE``, ``GITHUB_PAT``).
    """
    if re.search(rf"(?i)(?:{_ALWAYS}|token|[_-]key|pass|[_-]auth)(?:s|_id|_file|_path)?$", name):
        return True
    speaks = re.search(rf"(?i){_AMIDST}(?![a-z])|(?:key|pass|pwd|auth)_?\d+$", name)
    return bool(speaks and len(value) >= 6 and not _NOTHING.fullmatch(value) and not value.isdigit())


_OTHERS = ("private-key", "conda-token", "credentials", "authorization", "secret", "user", "host", "email")
STANDS = re.compile(f"<({'|'.join((*_TOKENS, *_OTHERS))})>")
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
        if host and host.lower() not in _GENERIC:
            found |= {host: "<host>"} if _telling(host) else {f"@{host}": "@<host>", f"://{host}": "://<host>"}
    return found


def of_this_host(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What says who and where we are, and the values of secret variables -> what is put in their place."""
    environ = os.environ if environ is None else environ
    found = {
        value: "<secret>"
        for name, value in environ.items()
        if secret_variable(name, value) and len(value) >= 6 and not _NOTHING.fullmatch(value) and not value.isdigit()
    }
    found |= hosts((socket.gethostname(), environ.get("HOSTNAME", "")))
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no such user in the container that we run in
        user = ""
    if user and user.lower() not in _GENERIC:
        found |= {user: "<user>"} if _telling(user) else {f"{user}@": "<user>@"}
    home = str(Path.home())
    if home.count("/") > 1:  # /root says nothing
        found[home] = "~"
    return found


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
                # What is no secret behind a name may itself be a name and a secret.
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
        pattern = re.compile("|".join(map(_as_word, longest)))
        return self.replace(pattern, text, lambda match: (_kind(values[match[0]]), values[match[0]]))

    def private_keys(self, text: str) -> str:
        return self.replace(_PEM, text, lambda match: ("private-key", "<private-key>"))

    def in_urls(self, text: str) -> str:
        text = self.replace(_IN_URL, text, lambda match: ("credentials", "<credentials>@"))
        text = self.replace(_IN_ADDRESS, text, lambda match: ("credentials", "<credentials>"))
        return self.replace(_CONDA, text, lambda match: ("conda-token", "<conda-token>"))

    def headers(self, text: str) -> str:
        def put(match: re.Match[str]) -> tuple[str, str] | None:
            kept = match["keep"] or match["keep2"] or match["keep3"]
            return "authorization", f"{kept}<authorization>"

        return self.replace(_HEADER, text, put)

    def typed(self, text: str) -> str:
        def put(match: re.Match[str]) -> tuple[str, str]:
            return "secret", f"{match['keep'] or match['keep2']}<secret>"

        return self.replace(_TYPED, text, put)

    def tokens(self, text: str) -> str:
        def put(match: re.Match[str]) -> tuple[str, str]:
            kind = _KINDS[str(match.lastgroup)]
            return kind, f"<{kind}>"

        return self.replace(_TOKEN, text, put)

    def named(self, text: str) -> str:
        if not _HINT.search(text):
            return text

        def put(match: re.Match[str]) -> tuple[str, str] | None:
            if not _is_secret(match):
                return None
            return "secret", match[0][: match.start("value") - match.start()] + "<secret>"

        return self.replace(_NAMED, text, put)

    def people(self, text: str) -> str:
        def prompt(match: re.Match[str]) -> tuple[str, str] | None:
            user = match["user"] if match["user"].lower() in _GENERIC else "<user>"
            return ("host", f"{match['before']}{user}@<host>") if match["user"] != "git" else None

        def elsewhere(match: re.Match[str]) -> tuple[str, str]:
            user = match["user"] if match["user"].lower() in _GENERIC else "<user>"
            return "host", f"{match['keep']}{user}@<host>"

        text = self.replace(_PROMPT, text, prompt)
        text = self.replace(_SSH, text, elsewhere)
        return self.replace(_EMAIL, text, lambda match: ("email", "<email>"))

    def places(self, text: str) -> str:
        def home(match: re.Match[str]) -> tuple[str, str] | None:
            name = match["unix"] or match["windows"] or match["msys"]
            return None if name in _KEPT_HOMES else ("home", "~")

        text = self.replace(_HOME, text, home)
        return self.replace(_INTERNAL, text, lambda match: ("host", "<host>"))


_STEPS = (
    _Scrubber.private_keys,
    _Scrubber.in_urls,
    _Scrubber.headers,
    _Scrubber.typed,
    _Scrubber.tokens,
    _Scrubber.named,
    _Scrubber.people,
    _Scrubber.places,
)


def _as_word(value: str) -> str:
    """A pattern for ``value`` where it is no part of a longer word."""
    before = "(?<![A-Za-z0-9])" if value[0].isalnum() else ""
    return before + re.escape(value) + ("(?![A-Za-z0-9])" if value[-1].isalnum() else "")


def _kind(replacement: str) -> str:
    return "home" if replacement == "~" else re.sub(r"[^\w-]", "", replacement)


def _is_secret(match: re.Match[str]) -> bool:
    """Whether a value behind a name is one, rather than nothing, a placeholder or code."""
    name, value, text = match["name"], match["value"], match.string
    folder = name.lower() in ("pwd", "oldpwd") and value[0] in "/~."
    if folder or _NOTHING.fullmatch(value):
        return False
    if not match["quote"]:
        after = text[match.end() : match.end() + 1]
        if _CODE.fullmatch(value.rstrip(",")) or after in ("(", "[") or re.match(r"f?[\"']", text[match.end() :][:2]):
            return False
    return bool(_CERTAIN.search(name) or _RANDOM.fullmatch(value))
