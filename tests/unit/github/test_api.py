"""The client of the API, against a server that answers as GitHub does, faults included."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path

import pytest

from reprokit.core.errors import UsageError
from reprokit.core.github_api import ApiError, Repository, from_environment
from reprokit.github.event import read_event
from tests.unit.github.server import BOT, TOKEN, Forge
from tests.unit.serving import Quiet


@pytest.fixture
def forge() -> Iterator[Forge]:
    with Forge().served() as forge:
        yield forge


def client(forge: Forge, waits: list[float] | None = None, token: str = TOKEN) -> Repository:
    sleeps = [] if waits is None else waits
    return Repository(forge.name, token, url=forge.url, sleep=sleeps.append)


def test_it_reads_writes_and_removes(forge: Forge) -> None:
    number = forge.open_issue("t", "b")
    api = client(forge)
    assert api.get("issues", number)["title"] == "t"
    comment = api.post("issues", number, "comments", body={"body": "hello"})
    api.patch("issues", "comments", comment["id"], body={"body": "again"})
    assert forge.bodies(number, BOT) == ["again"]
    api.post("labels", body={"name": "run:ab/../c d", "color": "ededed"})
    assert api.delete("labels", "run:ab/../c d") is True
    assert api.delete("labels", "run:ab/../c d") is False


def test_a_list_is_read_to_its_last_page(forge: Forge) -> None:
    number = forge.open_issue("t", "b")
    for count in range(250):
        forge.comment(number, str(count), "someone")
    assert [item["body"] for item in client(forge).all("issues", number, "comments")] == [str(n) for n in range(250)]
    assert len(forge.requests) == 3


def test_a_next_page_on_another_server_is_not_asked(forge: Forge) -> None:
    forge.faults.append((200, {"Link": '<http://127.0.0.1:9/evil>; rel="next"'}, [1]))
    with pytest.raises(ApiError, match="another server"):
        list(client(forge).all("issues"))


@pytest.mark.parametrize(
    ("status", "headers", "waits"),
    [
        (500, {}, [1, 2]),
        (502, {}, [1, 2]),
        (403, {"Retry-After": "7"}, [7, 7]),
        (429, {"Retry-After": "30"}, [30, 30]),
        (429, {}, [60, 60]),
    ],
)
def test_server_errors_and_rate_limits_are_waited_out(
    forge: Forge, status: int, headers: dict[str, str], waits: list[float]
) -> None:
    forge.faults += [(status, headers, {"message": "later"})] * 2
    number = forge.open_issue("t", "b")
    seen: list[float] = []
    assert client(forge, seen).get("issues", number)["title"] == "t"
    assert seen == waits


def test_it_gives_up_after_five_tries_and_reports_the_servers_answer(forge: Forge) -> None:
    forge.faults += [(503, {}, {"message": "We had issues\nproducing a response"})] * 9
    seen: list[float] = []
    with pytest.raises(ApiError, match="GET /repos/owner/repo/labels: GitHub answers 503: We had issues producing"):
        list(client(forge, seen).all("labels"))
    assert seen == [1, 2, 4, 8]


def test_a_long_rate_limit_is_reported_and_not_waited_for(forge: Forge) -> None:
    forge.faults.append(
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "99999999999"}, {"message": "rate limit exceeded"})
    )
    seen: list[float] = []
    with pytest.raises(ApiError, match=r"rate limit exceeded; it would answer again in \d+ s"):
        client(forge, seen).get("labels")
    assert seen == []


def test_a_request_that_may_have_succeeded_is_not_repeated(forge: Forge) -> None:
    number = forge.open_issue("t", "b")
    forge.faults.append((502, {}, None))
    seen: list[float] = []
    with pytest.raises(ApiError):
        client(forge, seen).post("issues", number, "comments", body={"body": "x"})
    forge.faults.append((403, {"Retry-After": "1"}, {"message": "secondary rate limit"}))
    client(forge, seen).post("issues", number, "comments", body={"body": "x"})
    assert forge.bodies(number) == ["x"]
    assert seen == [1]


def test_a_refusal_is_not_repeated(forge: Forge) -> None:
    forge.readonly = True
    number = forge.open_issue("t", "b")
    with pytest.raises(ApiError, match="403: Resource not accessible by integration") as caught:
        client(forge).post("issues", number, "comments", body={"body": "x"})
    assert caught.value.status == 403
    assert len(forge.requests) == 1


def test_a_server_that_does_not_answer() -> None:
    seen: list[float] = []
    with pytest.raises(ApiError, match=r"cannot be reached: .*refused"):
        Repository("o/r", "secret-token", url="http://127.0.0.1:9", sleep=seen.append).get("issues")
    assert len(seen) == 4


def test_the_token_goes_only_to_the_api_and_into_no_text(forge: Forge) -> None:
    elsewhere: list[str | None] = []

    class Elsewhere(Quiet):
        def do_GET(self) -> None:
            elsewhere.append(self.headers.get("Authorization"))
            self.answer(200, b"{}", Content_Length="2")

    other = HTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=other.handle_request)
    thread.start()
    forge.faults.append((302, {"Location": f"http://127.0.0.1:{other.server_address[1]}/x"}, None))
    assert client(forge).get("issues") == {}
    thread.join()
    other.server_close()
    assert elsewhere == [None]
    assert forge.authorizations == [f"Bearer {TOKEN}"]
    api = client(forge)
    assert TOKEN not in repr(api)
    with pytest.raises(ApiError) as caught:
        api.get("nowhere")
    assert TOKEN not in str(caught.value) + repr(caught.value)


def test_a_redirect_within_the_api_keeps_the_token(forge: Forge) -> None:
    number = forge.open_issue("t", "b")
    forge.faults.append((301, {"Location": f"{forge.url}/repos/{forge.name}/issues/{number}"}, None))
    assert client(forge).get("issues", 99)["title"] == "t"


def test_a_redirect_to_another_host_is_not_followed(forge: Forge) -> None:
    forge.faults.append((302, {"Location": "http://case.example/x"}, None))
    with pytest.raises(ApiError, match=r"redirects to case\.example"):
        client(forge).get("issues", 99)


def test_no_proxy_answers_for_this_host(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    number = forge.open_issue("t", "b")
    assert client(forge).get("issues", number)["title"] == "t"


def test_segments_cannot_become_another_path(forge: Forge) -> None:
    with pytest.raises(ApiError):
        client(forge).get("collaborators", "../../other/repo", "permission")
    with pytest.raises(ApiError):
        client(forge).get("labels", "..", "..")
    assert forge.requests == [
        "GET /repos/owner/repo/collaborators/%2E%2E%2F%2E%2E%2Fother%2Frepo/permission",
        "GET /repos/owner/repo/labels/%2E%2E/%2E%2E",
    ]


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(UsageError, match="GITHUB_REPOSITORY is not set"):
        from_environment({})
    with pytest.raises(UsageError, match="GITHUB_TOKEN is not set"):
        from_environment({"GITHUB_REPOSITORY": "o/r"})
    for name in ("o", "o/r/x", "o/..?x", "-o/r"):
        with pytest.raises(UsageError, match="is not a repository"):
            from_environment({"GITHUB_REPOSITORY": name, "GITHUB_TOKEN": "x"})
    with pytest.raises(UsageError, match="no token has"):
        from_environment({"GITHUB_REPOSITORY": "o/r", "GITHUB_TOKEN": "x\n"})


def test_the_event_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    environ = {"GITHUB_EVENT_PATH": str(file), "GITHUB_EVENT_NAME": "issues"}
    with pytest.raises(UsageError, match="cannot be read"):
        read_event(environ)
    for text, reason in (("{", "is not valid JSON"), ("[]", "not a JSON object"), ("[" * 100_000, "is not valid JSON")):
        file.write_text(text)
        with pytest.raises(UsageError, match=reason):
            read_event(environ)
    file.write_text(json.dumps({"action": "opened", "issue": {"number": 3, "body": None, "title": "t"}}))
    event = read_event(environ)
    assert (event.name, event.action, event.number("issue", "number")) == ("issues", "opened", 3)
    assert (event.text("issue", "title"), event.text("issue", "body"), event.text("label", "name")) == ("t", "", "")
    with pytest.raises(UsageError, match="no number at issue"):
        event.number("issue")
    with pytest.raises(UsageError, match="GITHUB_EVENT_PATH is not set"):
        read_event({})
