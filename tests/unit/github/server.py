"""A test server for GitHub's API: a real HTTP server on this machine that keeps issues, comments and labels."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.unit.serving import Quiet, serving

BOT = "github-actions[bot]"
TOKEN = "ghs_" + "s" * 36
"""What the test server accepts as the workflow's token; no output may contain it."""


class Forge:
    """One repository's state, and what was asked of it (``requests``: method and path, in order).

    ``faults``: answers to give first instead of the right ones: (status, headers, JSON body), oldest first.
    ``readonly``: refuse every change, as for a job whose permissions do not include it.
    """

    def __init__(self, name: str = "owner/repo") -> None:
        self.name = name
        self.url = ""
        self.issues: dict[int, dict[str, Any]] = {}
        self.labels: dict[str, dict[str, Any]] = {}
        self.permissions: dict[str, str] = {}
        self.artifacts: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.authorizations: list[str] = []
        self.faults: list[tuple[int, dict[str, str], Any]] = []
        self.readonly = False
        self._numbers = 1000
        self.lock = threading.RLock()

    def number(self) -> int:
        """An id that nothing else has."""
        self._numbers += 1
        return self._numbers

    def user(self, login: str) -> dict[str, Any]:
        """A user as GitHub writes one."""
        return {"login": login, "type": "Bot" if login.endswith("[bot]") else "User", "id": sum(login.encode())}

    def open_issue(self, title: str, body: str, author: str = "reporter", labels: tuple[str, ...] = ()) -> int:
        """A new issue's number."""
        number = len(self.issues) + 1
        self.issues[number] = {
            "id": self.number(),
            "number": number,
            "title": title,
            "body": body,
            "state": "open",
            "user": self.user(author),
            "labels": [self._label(name) for name in labels],
            "comments": [],
            "html_url": f"https://github.example/{self.name}/issues/{number}",
        }
        return number

    def comment(self, number: int, body: str, author: str) -> dict[str, Any]:
        """A new comment on an issue."""
        comment = {"id": self.number(), "body": body, "user": self.user(author)}
        self.issues[number]["comments"].append(comment)
        return comment

    def label(self, number: int, name: str) -> None:
        """Give an issue a label, as a person does."""
        if name not in self.names(number):
            self.issues[number]["labels"].append(self._label(name))

    def unlabel(self, number: int, name: str) -> None:
        """Take a label from an issue."""
        issue = self.issues[number]
        issue["labels"] = [label for label in issue["labels"] if label["name"] != name]

    def names(self, number: int) -> list[str]:
        """An issue's labels."""
        return [label["name"] for label in self.issues[number]["labels"]]

    def bodies(self, number: int, author: str = BOT) -> list[str]:
        """The comments of a user on an issue."""
        return [item["body"] for item in self.issues[number]["comments"] if item["user"]["login"] == author]

    def _label(self, name: str) -> dict[str, Any]:
        return self.labels.setdefault(name, {"name": name, "color": "ededed", "description": ""})

    def shown(self, issue: dict[str, Any]) -> dict[str, Any]:
        """An issue as GitHub answers with it: comments are a number."""
        return {**issue, "comments": len(issue["comments"])}

    def event(self, number: int, action: str, sender: str, label: str = "") -> dict[str, Any]:
        """The payload of an ``issues`` event, as the issue is now."""
        more = {"label": dict(self._label(label))} if label else {}
        return {
            "action": action,
            "issue": json.loads(json.dumps(self.shown(self.issues[number]))),
            "repository": {"full_name": self.name, "default_branch": "main"},
            "sender": self.user(sender),
            **more,
        }

    @contextmanager
    def served(self) -> Iterator[Forge]:
        """Answer on a port of this machine; ``url`` is then the API's address."""
        with serving(type("Handler", (_Handler,), {"forge": self})) as address:
            self.url = f"http://{address}"
            yield self

    def environment(self, token: str = TOKEN) -> dict[str, str]:
        """What a step's environment names it by."""
        return {"GITHUB_API_URL": self.url, "GITHUB_REPOSITORY": self.name, "GITHUB_TOKEN": token}


class Refused(Exception):
    """An answer other than 2xx."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Answer = tuple[int, Any]
ROUTES: list[tuple[str, re.Pattern[str], Callable[..., Answer]]] = []


def route(method: str, path: str) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Register what answers a path below the repository; ``<name>`` is one segment."""
    pattern = re.compile(re.sub(r"<(\w+)>", r"(?P<\1>[^/]+)", path))

    def register(answer: Callable[..., Answer]) -> Callable[..., Answer]:
        ROUTES.append((method, pattern, answer))
        return answer

    return register


class _Handler(Quiet):
    forge: Forge
    protocol_version = "HTTP/1.1"

    def _answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = b"" if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _serve(self) -> None:
        forge = self.forge
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        split = urlsplit(self.path)
        with forge.lock:
            forge.requests.append(f"{self.command} {split.path}")
            forge.authorizations.append(self.headers.get("Authorization", ""))
            if forge.faults:
                status, headers, body = forge.faults.pop(0)
                self._answer(status, body, headers)
                return
            query = {key: values[0] for key, values in parse_qs(split.query).items()}
            try:
                status, body = self._dispatch(split.path, query, json.loads(raw) if raw else {})
            except Refused as error:
                self._answer(error.status, {"message": str(error), "status": str(error.status)})
                return
            if isinstance(body, list):
                self._paged(status, body, split.path, query)
            elif isinstance(body, dict) and "total_count" in body:
                self._paged(status, body.pop("artifacts"), split.path, query, body)
            else:
                self._answer(status, body)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve

    def _dispatch(self, path: str, query: dict[str, str], body: Any) -> Answer:
        forge, prefix = self.forge, f"/repos/{self.forge.name}"
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refused(401, "Bad credentials")
        if not path.startswith(prefix):
            raise Refused(404, "Not Found")
        if forge.readonly and self.command != "GET":
            raise Refused(403, "Resource not accessible by integration")
        for method, pattern, answer in ROUTES:
            found = pattern.fullmatch(path[len(prefix) :])
            if found and method == self.command:
                given = {key: unquote(value) for key, value in found.groupdict().items()}
                return answer(forge, query=query, body=body, **given)
        raise Refused(404, "Not Found")

    def _paged(
        self, status: int, entries: list[Any], path: str, query: dict[str, str], around: dict[str, Any] | None = None
    ) -> None:
        size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
        headers = {}
        if page * size < len(entries):
            more = "&".join(f"{key}={value}" for key, value in {**query, "page": str(page + 1)}.items())
            headers["Link"] = f'<{self.forge.url}{path}?{more}>; rel="next", <{self.forge.url}{path}>; rel="last"'
        shown = entries[(page - 1) * size : page * size]
        self._answer(status, shown if around is None else {**around, "artifacts": shown}, headers)


def issue_of(forge: Forge, number: str) -> dict[str, Any]:
    """The issue of that number."""
    if not number.isdigit() or int(number) not in forge.issues:
        raise Refused(404, "Not Found")
    return forge.issues[int(number)]


@route("GET", "/issues")
def _issues(forge: Forge, query: dict[str, str], body: Any) -> Answer:
    wanted = set(filter(None, query.get("labels", "").split(",")))
    state, creator = query.get("state", "open"), query.get("creator")
    return 200, [
        forge.shown(issue)
        for number, issue in sorted(forge.issues.items(), reverse=True)
        if state in ("all", issue["state"])
        and wanted <= set(forge.names(number))
        and creator in (None, issue["user"]["login"])
    ]


@route("POST", "/issues")
def _open_issue(forge: Forge, query: dict[str, str], body: Any) -> Answer:
    number = forge.open_issue(body["title"], body.get("body", ""), BOT, tuple(body.get("labels", ())))
    return 201, forge.shown(forge.issues[number])


@route("GET", "/issues/<number>")
def _issue(forge: Forge, query: dict[str, str], body: Any, number: str) -> Answer:
    return 200, forge.shown(issue_of(forge, number))


@route("PATCH", "/issues/<number>")
def _edit_issue(forge: Forge, query: dict[str, str], body: Any, number: str) -> Answer:
    issue = issue_of(forge, number)
    issue.update({key: value for key, value in body.items() if key in ("title", "body", "state", "state_reason")})
    return 200, forge.shown(issue)


@route("GET", "/issues/<number>/comments")
def _comments(forge: Forge, query: dict[str, str], body: Any, number: str) -> Answer:
    return 200, list(issue_of(forge, number)["comments"])


@route("POST", "/issues/<number>/comments")
def _add_comment(forge: Forge, query: dict[str, str], body: Any, number: str) -> Answer:
    if len(body["body"]) > 65536:
        raise Refused(422, "Body is too long (maximum is 65536 characters)")
    return 201, forge.comment(issue_of(forge, number)["number"], body["body"], BOT)


@route("PATCH", "/issues/comments/<comment>")
def _edit_comment(forge: Forge, query: dict[str, str], body: Any, comment: str) -> Answer:
    for issue in forge.issues.values():
        for item in issue["comments"]:
            if str(item["id"]) == comment:
                item["body"] = body["body"]
                return 200, item
    raise Refused(404, "Not Found")


@route("DELETE", "/issues/comments/<comment>")
def _delete_comment(forge: Forge, query: dict[str, str], body: Any, comment: str) -> Answer:
    for issue in forge.issues.values():
        issue["comments"] = [item for item in issue["comments"] if str(item["id"]) != comment]
    return 204, None


@route("POST", "/issues/<number>/labels")
def _add_labels(forge: Forge, query: dict[str, str], body: Any, number: str) -> Answer:
    for name in body["labels"]:
        forge.label(issue_of(forge, number)["number"], name)
    return 200, list(issue_of(forge, number)["labels"])


@route("DELETE", "/issues/<number>/labels/<name>")
def _remove_label(forge: Forge, query: dict[str, str], body: Any, number: str, name: str) -> Answer:
    if name not in forge.names(issue_of(forge, number)["number"]):
        raise Refused(404, "Label does not exist")
    forge.unlabel(int(number), name)
    return 200, list(issue_of(forge, number)["labels"])


@route("GET", "/actions/artifacts")
def _artifacts(forge: Forge, query: dict[str, str], body: Any) -> Answer:
    found = [one for one in forge.artifacts if query.get("name") in (None, one["name"])]
    return 200, {"total_count": len(found), "artifacts": found}


@route("GET", "/labels")
def _labels(forge: Forge, query: dict[str, str], body: Any) -> Answer:
    return 200, list(forge.labels.values())


@route("GET", "/labels/<name>")
def _label(forge: Forge, query: dict[str, str], body: Any, name: str) -> Answer:
    if name not in forge.labels:
        raise Refused(404, "Not Found")
    return 200, forge.labels[name]


@route("POST", "/labels")
def _create_label(forge: Forge, query: dict[str, str], body: Any) -> Answer:
    if body["name"] in forge.labels:
        raise Refused(422, "Validation Failed: already_exists")
    if len(body["name"]) > 50 or len(body.get("description", "")) > 100:
        raise Refused(422, "Validation Failed: too long")
    forge.labels[body["name"]] = {"name": body["name"], "color": body.get("color", ""), **body}
    return 201, forge.labels[body["name"]]


@route("DELETE", "/labels/<name>")
def _delete_label(forge: Forge, query: dict[str, str], body: Any, name: str) -> Answer:
    if forge.labels.pop(name, None) is None:
        raise Refused(404, "Not Found")
    for number in forge.issues:
        forge.unlabel(number, name)
    return 204, None


@route("GET", "/collaborators/<login>/permission")
def _permission(forge: Forge, query: dict[str, str], body: Any, login: str) -> Answer:
    if not re.fullmatch(r"[\w-]+", login):
        raise Refused(404, "Not Found")
    role = forge.permissions.get(login, "read")
    # As documented: `permission` knows four words, maintain counts as write and triage as read; `role_name` has all.
    permission = {"maintain": "write", "triage": "read"}.get(role, role)
    return 200, {"permission": permission, "role_name": role, "user": forge.user(login)}
