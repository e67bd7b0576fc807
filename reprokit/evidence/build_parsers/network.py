"""Servers that do not answer, are not known or not trusted, or that lack what is asked for."""

from __future__ import annotations

import re

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser

_TLS = re.compile(
    r"^(?P<line>.*(?:CERTIFICATE_VERIFY_FAILED|SSL certificate problem|server certificate verification failed"
    r"|certificate verify failed|invalid peer certificate|SELF_SIGNED_CERT|unable to get local issuer certificate"
    r"|is not trusted).*)",
    re.M,
)
_UNKNOWN = re.compile(
    r"Could not resolve (?:host(?:name)?: |')(?P<a>[\w.-]+)|unable to resolve host address ['‘](?P<b>[^'’]+)"
    r"|Temporary failure resolving '(?P<c>[^']+)'|Failed to resolve '(?P<d>[^']+)'"
    r"|(?:Name or service not known|Temporary failure in name resolution|No address associated with hostname"
    r"|nodename nor servname provided|getaddrinfo (?:ENOTFOUND|EAI_AGAIN) (?P<e>[\w.-]+))"
)
_POOL = re.compile(r"host='([^']+)', port=(\d+)")
_ADDRESS = re.compile(r"https?://([^/\s'\")]+)")
_REFUSED = re.compile(
    r"Failed to connect to (?P<a>\S+) port (?P<b>\d+)|Connecting to (?P<c>\S+?)\.\.\. failed: Connection refused"
    r"|Could not connect to (?P<d>\S+)|(?:Connection refused|ECONNREFUSED|Network is unreachable|No route to host)"
)
_CODE = re.compile(
    r"curl: \(22\) The requested URL returned error: (?P<a>\d{3})|ERROR (?P<b>\d{3}): "
    r"|HTTP [Ee]rror (?P<c>\d{3})|returned error: (?P<d>\d{3})|(?P<e>[45]\d\d) (?:Client|Server) Error"
    r"|(?P<f>\d{3}) +Not Found"
)
_SLOW = re.compile(
    r"Read timed out|ReadTimeoutError|ConnectTimeoutError|Connection timed out|Operation timed out|timed out after"
    r"|Operation too slow|ETIMEDOUT"
)
_NO_REPOSITORY = re.compile(r"fatal: repository '(?P<url>[^']+)' not found|remote: Repository not found")
_NO_REF = re.compile(
    r"fatal: Remote branch (?P<a>\S+) not found|error: pathspec '(?P<b>[^']+)' did not match"
    r"|fatal: couldn't find remote ref (?P<c>\S+)|did not find branch or tag '(?P<d>[^']+)'"
)
_ASKS = re.compile(
    r"fatal: could not read Username for '(?P<url>[^']+)'|fatal: Authentication failed for '(?P<also>[^']+)'"
)
_GIT = re.compile(r"fatal: unable to access '(?P<url>[^']+)'")
_URL = re.compile(r"(?:https?|git|ftp|ssh)://[^\s'\"|;)]+")
_MEANS = {"401": "login required", "403": "forbidden", "404": "not found"}


def _read(log: BuildLog) -> BuildCause | None:
    for each in (_tls, _git, _unknown, _code, _slow, _refused):
        if cause := each(log):
            return cause
    return None


def _tls(log: BuildLog) -> BuildCause | None:
    found = _TLS.search(log.text)
    if found is None:
        return None
    whose = f"the certificate of {_asked(log, found['line']) or 'the server'}"
    if re.search(r"\bexpired\b", found["line"]):
        return BuildCause(sentence=f"{whose} has expired")
    if re.search(r"[Hh]ostname mismatch|(?:doesn't|does not) match|no alternative certificate subject", found["line"]):
        return BuildCause(sentence=f"{whose} is for another host")
    return BuildCause(
        sentence=f"{whose} is signed by an authority that the build does not trust",
        advice="a company's authority goes into ca_bundle of reprokit.toml",
    )


def _git(log: BuildLog) -> BuildCause | None:
    if gone := _NO_REPOSITORY.search(log.text):
        return BuildCause(sentence=f"there is no repository {gone['url'] or _asked(log)}, or it asks for a login")
    if asks := _ASKS.search(log.text):
        return BuildCause(
            sentence=f"git needs a login for {asks['url'] or asks['also']}: it does not exist there, or is private"
        )
    if ref := _NO_REF.search(log.text):
        return BuildCause(sentence=f"the repository has no branch, tag or commit {next(filter(None, ref.groups()))}")
    return None


def _unknown(log: BuildLog) -> BuildCause | None:
    found = _UNKNOWN.search(log.text)
    if found is None:
        return None
    host = next(filter(None, found.groups()), "") or _host(log)
    return BuildCause(
        sentence=f"the name of the host {host or 'that is asked for'} cannot be resolved{_for(log)}",
        advice="check the address, and the network of builds (reprokit doctor)",
    )


def _refused(log: BuildLog) -> BuildCause | None:
    found = _REFUSED.search(log.text)
    if found is None:
        return None
    who = f"{found['a'].strip('()')} port {found['b']}" if found["a"] else found["c"] or found["d"] or ""
    how = "refuses the connection" if re.search(r"refused|ECONNREFUSED", log.text) else "is not reachable"
    return BuildCause(sentence=f"{_server(log, who)} {how}{_for(log)}")


def _slow(log: BuildLog) -> BuildCause | None:
    if not _SLOW.search(log.text):
        return None
    return BuildCause(sentence=f"{_server(log)} did not answer in time{_for(log)}")


def _code(log: BuildLog) -> BuildCause | None:
    found = log.last(_CODE.pattern)
    code = next(filter(None, found.groups()), "") if found else ""
    if not code:
        return None
    means = f" ({_MEANS[code]})" if code in _MEANS else ""
    return BuildCause(sentence=f"{_asked(log) or 'the server'} answers {code}{means}")


def _asked(log: BuildLog, line: str = "") -> str:
    """The address that the failing command asked for, as far as it is printed or stands in its line."""
    for text in (line, log.at.command if log.at else "", *(reversed(log.lines) if not log.at else ())):
        if found := _URL.search(text):
            return found[0].rstrip("/.,:")
    return _host(log)


def _host(log: BuildLog) -> str:
    """The host that did not serve: as git or pip name it, else the one that the failing command names."""
    if git := _GIT.search(log.text):
        return git["url"]
    if pool := _POOL.search(log.text):
        return f"{pool[1]}:{pool[2]}"
    command = _ADDRESS.search(log.at.command if log.at else log.step)
    return command[1] if command else ""


def _server(log: BuildLog, who: str = "") -> str:
    who = who or _host(log)
    if re.search(r"pip\._vendor|/simple/", log.text) is None:
        return who or "the server"
    return f"the package index at {who}" if who else "a package index"


def _for(log: BuildLog) -> str:
    url = _GIT.search(log.text)
    return f" (git asks for {url['url'].rstrip('/')})" if url else ""


PARSER = BuildParser(name="network", read=_read, precedence=12)
