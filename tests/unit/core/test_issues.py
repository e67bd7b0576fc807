"""Cases from issues, comments and pages of the web, read from a real HTTP server on this host."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import ThreadingHTTPServer
from typing import Any

import pytest

from reprokit.core import fetch, issues
from reprokit.core.errors import CaseError, UsageError
from reprokit.run.loading import load
from tests.unit.github.server import TOKEN, Forge
from tests.unit.serving import Quiet

CASE = "schema: reprokit/v1\nid: pasted\ntitle: Pasted\ncommand: 'false'\n"
BODY = f"It fails:\n\n```yaml\n{CASE}```\n"


class Site:
    """Answers by path (with its query, where there is one): (status, headers, body). ``asked``: what came in."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[tuple[str, str]] = []
        self.url = ""

    def says(self, path: str, body: Any, status: int = 200, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers[path] = (status, {"Content-Type": "application/json", **named}, data)

    def issue(self, below: str, body: str, comments: Mapping[int, str] | None = None, **more: Any) -> None:
        self.says(below, {"title": "A title", "body": body, "user": {"login": "somebody"}, **more})
        listed = [{"id": number, "body": text} for number, text in (comments or {}).items()]
        self.says(f"{below}/comments?per_page=100", listed)


@pytest.fixture
def site() -> Iterator[Site]:
    yield from _served()


@pytest.fixture
def other() -> Iterator[Site]:
    yield from _served()


def _served() -> Iterator[Site]:
    site = Site()

    class Handler(Quiet):
        def do_GET(self) -> None:
            site.asked.append((self.path, self.headers.get("Authorization", "")))
            status, headers, body = site.answers.get(self.path, (404, {}, b'{"message": "Not Found"}'))
            self.answer(status, body, **headers)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield site
        server.shutdown()


@pytest.fixture
def github(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """The site stands in for api.github.com."""
    monkeypatch.setenv("GITHUB_API_URL", site.url)
    return site


URL = "https://github.com/o/r/issues/7"


def test_the_body_of_an_issue_is_read_and_places_are_those_of_the_body(github: Site) -> None:
    github.issue("/repos/o/r/issues/7", BODY, html_url=URL)
    [file] = load(URL)
    assert (file.path, file.case.id, file.text) == (URL, "pasted", CASE)
    assert [path for path, _ in github.asked] == ["/repos/o/r/issues/7"]
    assert issues.read(URL).body.created == ""
    github.issue("/repos/o/r/issues/7", BODY, created_at="2021-05-04T10:22:11Z")
    assert issues.read(URL).body.created == "2021-05-04T10:22:11Z"
    github.issue("/repos/o/r/issues/7", BODY.replace("title:", "titel:"))
    with pytest.raises(CaseError, match=r"issues/7:6:1: .*title"):
        load(URL)


def test_a_pull_request_and_its_comments_are_read_alike(github: Site) -> None:
    github.issue("/repos/o/r/issues/8", BODY)
    assert load("https://www.github.com/o/r/pull/8/files")[0].case.id == "pasted"
    assert issues.read("http://github.com/o/r/pull/8").title == "A title"


def test_lines_that_end_with_crlf_make_the_same_case(github: Site) -> None:
    github.issue("/repos/o/r/issues/7", BODY)
    [plain] = load(URL)
    github.issue("/repos/o/r/issues/7", BODY.replace("\n", "\r\n"))
    [crlf] = load(URL)
    assert crlf.digest == plain.digest


def test_the_comment_that_holds_a_case_is_named(github: Site) -> None:
    github.issue("/repos/o/r/issues/7", "help!", {11: "me too", 12: BODY})
    [file] = load(URL)
    assert file.path == f"{URL}#issuecomment-12"


def test_several_comments_with_cases_are_not_chosen_from(github: Site) -> None:
    github.issue("/repos/o/r/issues/7", "help!", {11: BODY, 12: BODY})
    with pytest.raises(UsageError, match=r"2 comments hold a case[^\0]*#issuecomment-11\n.*#issuecomment-12"):
        load(URL)
    github.says("/repos/o/r/issues/comments/12", {"body": BODY})
    assert load(f"{URL}#issuecomment-12")[0].case.id == "pasted"
    github.says("/repos/o/r/pulls/comments/13", {"body": BODY})
    assert load(f"{URL}#discussion_r13")[0].case.id == "pasted"


def test_an_issue_without_a_case_says_how_one_looks(github: Site) -> None:
    github.issue("/repos/o/r/issues/7", "title: not: yaml: at all")
    with pytest.raises(CaseError, match="no fenced block holds"):
        load(URL)
    github.says("/repos/o/r/issues/7", {"title": "t", "body": None})
    with pytest.raises(CaseError, match="no fenced block holds"):
        load(URL)


@pytest.mark.parametrize(
    ("status", "headers", "message", "wanted"),
    [
        (404, {}, "Not Found", "issue 7 of o/r is not there, or it is private .it needs a token"),
        (410, {}, "This issue was deleted", "is not there"),
        (403, {"X_RateLimit_Remaining": "0"}, "API rate limit exceeded for 1.2.3.4", "wait, or set GH_TOKEN or GITHUB"),
        (429, {"Retry_After": "60"}, "slow down", "too much was asked"),
        (403, {}, "Resource not accessible", "GitHub answers 403: Resource not accessible"),
        (401, {}, "Bad credentials", "the token is refused"),
        (500, {}, "oops", "GitHub answers 500"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(
    github: Site, status: int, headers: dict[str, str], message: str, wanted: str
) -> None:
    github.says("/repos/o/r/issues/7", {"message": message}, status, **headers)
    with pytest.raises(UsageError, match=wanted):
        load(URL)
    assert len(github.asked) == 1


def test_the_token_reaches_its_api_and_no_one_else(github: Site, other: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_secret")
    github.issue("/repos/o/r/issues/7", BODY)
    load(URL)
    assert github.asked[-1][1] == "Bearer ghp_secret"
    # A transferred issue, on the same server; and a redirect to somewhere else.
    github.says("/repos/o/r/issues/8", b"", 301, Location=f"{github.url}/repos/o/r/issues/7")
    load(URL.replace("7", "8"))
    assert github.asked[-1][1] == "Bearer ghp_secret"
    github.says("/repos/o/r/issues/9", b"", 301, Location=f"{other.url}/x")
    other.issue("/x", BODY)
    load(URL.replace("7", "9"))
    assert other.asked == [("/x", "")]
    # Another server's issue, and a file.
    other.issue("/api/v3/repos/o/r/issues/7", BODY)
    other.says("/o/r/issues/7", b"<html>", Content_Type="text/html")
    other.says("/a.yaml", CASE.encode(), Content_Type="text/plain")
    load(f"{other.url}/o/r/issues/7")
    load(f"{other.url}/a.yaml")
    assert {token for _, token in other.asked} == {""}


def test_an_api_of_another_server_is_not_believed(github: Site) -> None:
    github.issue("/repos/o/r/issues/7", BODY, html_url="https://github.corp.example/o/r/issues/7")
    with pytest.raises(UsageError, match="set GITHUB_SERVER_URL"):
        load(URL)


def test_an_enterprise_server_is_known_by_its_setting_and_by_its_answers(
    github: Site, other: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    forge = Forge("o/r")
    number = forge.open_issue("t", "see below")
    forge.comment(number, BODY, "somebody")
    with forge.served():
        monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.example")
        monkeypatch.setenv("GITHUB_API_URL", forge.url)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        assert "#issuecomment-" in load(f"https://github.example/o/r/issues/{number}")[0].path
    other.says("/o/r/issues/7", b"<html>", Content_Type="text/html")
    other.issue("/api/v1/repos/o/r/issues/7", BODY)
    assert load(f"{other.url}/o/r/issues/7")[0].case.id == "pasted"
    assert [path for path, _ in other.asked][1:] == ["/api/v3/repos/o/r/issues/7", "/api/v1/repos/o/r/issues/7"]


def test_a_page_that_only_looks_like_an_issue_says_what_to_do(site: Site) -> None:
    for path in ("/o/r/issues/7", "/api/v3/repos/o/r/issues/7", "/api/v1/repos/o/r/issues/7"):
        site.says(path, b"<html>", Content_Type="text/html")
    with pytest.raises(UsageError, match=f"answers with a web page, not with a case.*GITHUB_SERVER_URL={site.url}"):
        load(f"{site.url}/o/r/issues/7")


def test_gitlab_is_asked_for_the_description(site: Site) -> None:
    site.says("/api/v4/projects/g%2Fs%2Fp/issues/3", {"title": "T", "description": BODY, "author": {"username": "u"}})
    assert load(f"{site.url}/g/s/p/-/issues/3")[0].case.id == "pasted"
    assert issues.read(f"{site.url}/g/s/p/-/issues/3").body.author == "u"
    with pytest.raises(UsageError, match="answers 404"):
        load(f"{site.url}/g/s/p/-/issues/4")


def test_addresses_of_issues_are_distinguished_from_others() -> None:
    assert issues.is_issue("https://gitee.com/o/r/issues/I5ABCD#note_12_link")
    assert issues.is_issue("https://gitlab.example/g/s/p/-/work_items/3")
    assert not issues.is_issue("https://code.example/o/r/issues/3")  # only its answers tell
    assert issues.may_be_issue("https://code.example/o/r/issues/3")
    for other in ("https://github.com/o/r", "https://github.com/o/r/blob/main/issues/1.yaml", "https://[", "x"):
        assert not issues.may_be_issue(other)


def test_discussions_are_refused_with_what_to_do(github: Site) -> None:
    with pytest.raises(UsageError, match="save its text"):
        load("https://github.com/o/r/discussions/3")
    assert not github.asked


@pytest.mark.parametrize(
    ("shown", "raw"),
    [
        ("https://github.com/o/r/blob/main/a/b.yaml#L3", "https://github.com/o/r/raw/main/a/b.yaml"),
        ("https://gitlab.com/g/s/p/-/blob/main/a.yaml?ref=x", "https://gitlab.com/g/s/p/-/raw/main/a.yaml"),
        ("https://gist.github.com/me/0123456789abcdef0123", "https://gist.github.com/me/0123456789abcdef0123/raw"),
        ("https://example.com/a.yaml?x=1", "https://example.com/a.yaml?x=1"),
        ("https://example.com/blob/a.yaml", "https://example.com/blob/a.yaml"),
    ],
)
def test_pages_that_show_a_file_stand_for_the_file(shown: str, raw: str) -> None:
    assert fetch.raw(shown) == raw


def test_more_than_a_megabyte_is_refused(site: Site, github: Site) -> None:
    site.says("/large.yaml", b"#" * (fetch.MAX_BYTES + 1), Content_Type="text/plain")
    with pytest.raises(UsageError, match="more than 1 MB"):
        load(f"{site.url}/large.yaml")
    github.issue("/repos/o/r/issues/7", BODY + "#" * fetch.MAX_BYTES)
    with pytest.raises(UsageError, match="more than 1 MB"):
        load(URL)


def test_redirects_lead_to_no_other_kind_of_place(site: Site, other: Site) -> None:
    other.says("/b.yaml", CASE.encode(), Content_Type="text/plain")
    site.says("/near.yaml", b"", 302, Location=f"{other.url}/b.yaml")
    assert load(f"{site.url}/near.yaml")[0].case.id == "pasted"
    site.says("/away.yaml", b"", 302, Location="http://case.example/b.yaml")
    with pytest.raises(UsageError, match=r"redirects to case\.example"):
        load(f"{site.url}/away.yaml")
    site.says("/file.yaml", b"", 302, Location="file:///etc/passwd")
    with pytest.raises(UsageError, match=r"not a web address"):
        load(f"{site.url}/file.yaml")


def test_this_host_is_not_asked_for_by_a_proxy(site: Site, other: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", other.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    site.says("/a.yaml", CASE.encode(), Content_Type="text/plain")
    load(f"{site.url}/a.yaml")
    assert not other.asked
