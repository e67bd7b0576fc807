"""A stand-in of Kubernetes' API, as far as reprokit asks it: a pod is a process of this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.unit.serving import Quiet

TOKEN = "of-the-test"
PATH = re.compile(
    r"/(?:apis/batch/v1|api/v1)/namespaces/(?P<space>[^/]+)/(?P<kind>jobs|pods)(?:/(?P<name>[^/]+))?(?P<log>/log)?"
)


class KubernetesApi(ThreadingHTTPServer):
    """``fails``: what becomes of jobs, counted from 1: ``evicted`` by its node; ``cut``, of its log the node kept half;
    ``removed``, another hand deletes it.
    """

    daemon_threads = True

    def __init__(self, folder: Path, fails: Mapping[int, str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.fails = folder, fails
        self.asked: list[dict[str, Any]] = []
        """The jobs that came."""
        self.jobs: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.logs: dict[str, bytes] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, job: dict[str, Any]) -> None:
        """Take a job, and start its pod."""
        self.asked.append(job)
        name, pod = job["metadata"]["name"], job["spec"]["template"]
        self.jobs[name] = {**job, "status": {}}
        meta = {**pod["metadata"], "name": f"{name}-x", "namespace": "lab"}
        self.pods[name] = {
            "metadata": meta,
            "spec": {**pod["spec"], "nodeName": "knode"},
            "status": {"phase": "Running"},
        }
        (container,) = pod["spec"]["containers"]
        words = [re.sub(r"\$\$", "$", word) for word in container["command"]] + container["args"]
        assert len(json.dumps(job)) < 1 << 20
        assert max(len(word.encode()) for word in words) < 131072
        environ = {**os.environ, **{one["name"]: one["value"] for one in container["env"]}}
        self.processes[name] = subprocess.Popen(
            words,
            env=environ,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        threading.Thread(target=self._end, args=[name, self.fails.get(len(self.asked), "")], daemon=True).start()

    def _end(self, name: str, fault: str) -> None:
        process = self.processes[name]
        if fault in ("evicted", "removed"):
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=3)
            self.kill(name)
        log = process.communicate()[0]
        self.logs[name] = log[: len(log) // 2] if fault == "cut" else log
        failed = fault == "evicted" or process.returncode
        self.pods[name]["status"] = {"phase": "Failed" if failed else "Succeeded"}
        if fault == "evicted":
            self.pods[name]["status"] |= {"reason": "Evicted", "message": "The node was low on resource: memory."}
        kind, reason = ("Failed", "BackoffLimitExceeded") if failed else ("Complete", "")
        if fault == "removed":
            self.jobs.pop(name, None)
        elif name in self.jobs:
            self.jobs[name]["status"] = {"conditions": [{"type": kind, "status": "True", "reason": reason}]}

    def kill(self, name: str) -> None:
        """End a pod's process with all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.processes[name].pid, signal.SIGKILL)


class _Handler(Quiet):
    server: KubernetesApi

    def _serve(self) -> None:
        url = urlsplit(self.path)
        found = PATH.fullmatch(url.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._answer(401, {"message": "Unauthorized"})
        if found is None or found["space"] != "lab":
            return self._answer(403, {"message": "jobs.batch is forbidden in this namespace"})
        api, name = self.server, found["name"] or ""
        if self.command == "POST":
            if body["metadata"]["name"] in api.jobs:
                return self._answer(409, {"message": "already exists"})
            api.start(body)
            return self._answer(201, body)
        if self.command == "DELETE":
            if api.jobs.pop(name, None) is None:
                return self._answer(404, {"message": "not found"})
            api.kill(name)
            return self._answer(200, {})
        if found["log"]:
            limit = int(parse_qs(url.query)["limitBytes"][0])
            return self._answer(200, api.logs[name.removesuffix("-x")][:limit])
        items = api.jobs if found["kind"] == "jobs" else api.pods
        assert parse_qs(url.query)["labelSelector"] == ["reprokit-job"]
        return self._answer(200, {"items": list(items.values())})

    do_GET = do_POST = do_DELETE = _serve

    def _answer(self, status: int, what: Any) -> None:
        data = what if isinstance(what, bytes) else json.dumps(what).encode()
        self.answer(status, data, Content_Type="application/json", Content_Length=str(len(data)))


@contextmanager
def kubernetes_api(folder: Path, fails: Mapping[int, str]) -> Iterator[KubernetesApi]:
    """The stand-in, which ends with the block; its kubeconfig, with the context ``lab``, is ``folder/kubeconfig``."""
    with KubernetesApi(folder, fails) as api:
        threading.Thread(target=api.serve_forever, daemon=True).start()
        config = {
            "current-context": "",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.server_port}"}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "u"}}],
        }
        (folder / "kubeconfig").write_text(json.dumps(config))
        try:
            yield api
        finally:
            api.shutdown()
            for name in api.processes.keys() - api.logs:  # the number of one that ended may be another's by now
                api.kill(name)
