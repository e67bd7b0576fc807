"""Jobs of Kubernetes, in pods of the site's template. Only this module speaks to its API, by the official client.

No folder is shared: a job's files are in the arguments of its pod, and what it leaves is in the pod's log.
"""

from __future__ import annotations

import base64
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from reprokit.core import version
from reprokit.core.errors import EngineError, UsageError
from reprokit.core.text import one_line, size
from reprokit.run.launch.job import STOPPING, Job
from reprokit.run.launch.launcher import JobState, Launcher, Phase

LABEL = "reprokit-job"
LARGEST = 700_000
"""Characters of a job's files: an object of Kubernetes has 1.5 MiB at most."""
PIECE = 100_000
"""Characters of one argument: Linux takes 131,071."""
MOST_LOG = 10 << 20
"""Bytes of a log: a node keeps so many of it, where the site does not say else."""
KEPT = 24 * 3600
"""Seconds that Kubernetes keeps a job that ended, for a run that is resumed and for people."""
LOOK, ANSWER = 2.0, 30.0
"""Seconds between two questions, which are of all jobs, and that an answer may take."""
WRONG = ("InvalidImageName", "CreateContainerConfigError", "ErrImageNeverPull")
"""Reasons of a waiting container that time alone does not end."""

_SCRIPT = """\
stream=$1; shift; errors=$(mktemp)
printf %s "$@" | base64 -d | sh -c "$stream" 2>"$errors" | base64
tail -n 1 "$errors" | sed 's/^/# /'
"""


class KubernetesLauncher(Launcher):
    """``where``: ``CONTEXT/NAMESPACE?template=FILE``, of a kubeconfig or the pod that this runs in. Knows a job by its
    namespace and name.
    """

    def __init__(self, where: str = "") -> None:
        self.name = f"kubernetes:{where}" if where else "kubernetes"
        place, _, template = where.partition("?template=")
        context, _, self._namespace = place.rpartition("/")
        self._meta, self._spec = self._read(template)
        try:
            from kubernetes import client, config
            from urllib3.exceptions import HTTPError
        except ImportError:
            line = version.install_line("kubernetes")
            raise UsageError(
                f"--on {self.name} needs the client of Kubernetes, which is not installed: {line}"
            ) from None
        settings, file = client.Configuration(), os.environ.get("KUBECONFIG") or None
        try:
            config.load_kube_config(file, context or None, settings)
            if not self._namespace:
                known, active = config.list_kube_config_contexts(file)
                chosen = next((one for one in known if one["name"] == context), active)
                self._namespace = chosen["context"].get("namespace", "")
        except (config.ConfigException, OSError) as error:
            try:
                if context:
                    raise
                config.load_incluster_config(settings)
            except (config.ConfigException, OSError):
                raise EngineError(f"--on {self.name}: {one_line(str(error), 300)}") from None
        self._namespace = self._namespace or "default"
        self._failures = (client.ApiException, HTTPError, OSError)
        self._batch = client.BatchV1Api(client.ApiClient(settings))
        self._core = client.CoreV1Api(client.ApiClient(settings))
        self._asked = -math.inf
        self._jobs: dict[str, Any] = {}
        self._pods: dict[str, Any] = {}

    def _read(self, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Metadata and spec of the site's pod. Raises UsageError."""
        try:
            found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
            found = found.get("template") or found
            if all(isinstance(found["spec"]["containers"][0][key], str) for key in ("name", "image")):
                return {"labels": {}, **(found.get("metadata") or {})}, found["spec"]
            why = "its first container has no name or no image"
        except (OSError, UnicodeDecodeError, yaml.YAMLError, LookupError, TypeError, AttributeError) as error:
            why = str(error.strerror) if isinstance(error, OSError) else "it is not a Pod or a PodTemplate"
        why = f"{path}: {why}" if path else "it names no template of a pod"
        form = "kubernetes:CONTEXT/NAMESPACE?template=pod.yaml"
        raise UsageError(f"--on {self.name}: {why}; write --on '{form}'")

    def start(self, job: Job) -> str:
        """See :class:`.Launcher`."""
        files = base64.b64encode(job.packed()).decode()
        if len(files) > LARGEST:
            raise EngineError(
                f"--on {self.name}: the files of this job are {size(len(files))} in base64, and a pod takes "
                f"{size(LARGEST)}: have them in its image, or give the case to nodes that share a folder"
            )
        with self._errors("it did not take the job", fine=409):  # its answer was lost before, and not the job
            self._batch.create_namespaced_job(self._namespace, self._job(job, files), _request_timeout=ANSWER)
        self._asked = -math.inf
        return f"{self._namespace} {job.id}"

    def _job(self, job: Job, files: str) -> dict[str, Any]:
        first, *others = self._spec["containers"]
        given = first.get("resources") or {}
        limits, requests = dict(given.get("limits") or {}), {"cpu": str(job.cpus), **(given.get("requests") or {})}
        gpu = next((name for name in limits if name.endswith("/gpu")), "nvidia.com/gpu")
        limits = {name: value for name, value in limits.items() if name != gpu}
        limits |= {gpu: str(job.gpus)} if job.gpus else {}
        requests.pop(gpu, None)
        if job.memory:
            requests.setdefault("memory", str(job.memory))
        pieces = [files[at : at + PIECE] for at in range(0, len(files), PIECE)]
        # Kubernetes would read $(NAME) as a variable, and $$ as $.
        words = [word.replace("$", "$$") for word in ("sh", "-c", _SCRIPT, "sh", job.stream)]
        command = {"command": words, "args": pieces}
        container = {**first, **command, "resources": {**given, "limits": limits, "requests": requests}}
        # The time is the pod's: what a job waits for a place does not count, and the log stays when it is over.
        spec = {"restartPolicy": "Never", "activeDeadlineSeconds": math.ceil(job.seconds) + 3 * STOPPING}
        pod = {
            "metadata": {**self._meta, "labels": {**self._meta["labels"], LABEL: job.id}},
            "spec": {**self._spec, **spec, "containers": [container, *others]},
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": job.id, "labels": {**self._meta["labels"], LABEL: job.id}},
            "spec": {"backoffLimit": 0, "ttlSecondsAfterFinished": KEPT, "template": pod},
        }

    def states(self, idents: Sequence[str]) -> Mapping[str, JobState]:
        """See :class:`.Launcher`."""
        if time.monotonic() - self._asked > LOOK:
            words = {"label_selector": LABEL, "_request_timeout": ANSWER}
            jobs: dict[str, Any] = {}
            with self._errors("it does not answer"):
                for space in {ident.split(" ")[0] for ident in idents}:
                    found = self._batch.list_namespaced_job(space, **words).items
                    jobs |= {f"{space} {one.metadata.name}": one for one in found}
                    pods = self._core.list_namespaced_pod(space, **words).items
                    self._pods |= {f"{space} {one.metadata.labels[LABEL]}": one for one in pods}
            self._jobs, self._asked = jobs, time.monotonic()
        return {ident: _state(self._jobs.get(ident), self._pods.get(ident)) for ident in idents}

    def cancel(self, ident: str) -> None:
        """See :class:`.Launcher`. The log goes with the pod: what the job had decided is lost."""
        space, name = ident.split(" ")
        with self._errors("it did not cancel the job", fine=404):
            words = {"propagation_policy": "Background", "_request_timeout": ANSWER}
            self._batch.delete_namespaced_job(name, space, **words)

    def bring(self, ident: str, job: Job) -> None:
        """See :class:`.Launcher`. A job whose archive came is removed."""
        pod = self._pods.get(ident)
        if pod is None or job.arrived():
            return
        words = {"container": self._spec["containers"][0]["name"], "limit_bytes": MOST_LOG}
        words |= {"_preload_content": False, "_request_timeout": ANSWER}
        with self._errors("the log of its pod does not come", fine=404):
            answer = self._core.read_namespaced_pod_log(pod.metadata.name, pod.metadata.namespace, **words)
            lines = answer.data.splitlines()
            output = job.folder / "here" / "output"
            with suppress(ValueError):  # of what was cut: a later digest decides
                output.write_bytes(base64.b64decode(b"".join(line for line in lines if not line.startswith(b"#"))))
                job.unpack(output)
        if job.arrived():
            self.cancel(ident)

    @contextmanager
    def _errors(self, what: str, fine: int = 0) -> Iterator[None]:
        """Raise EngineError for what the API refuses, but for one status."""
        try:
            yield
        except self._failures as error:
            if not fine or getattr(error, "status", None) != fine:
                said = getattr(error, "body", None) or str(error)
                with suppress(ValueError, TypeError, AttributeError):
                    said = json.loads(said).get("message") or said
                raise EngineError(f"--on {self.name}: {what}: {one_line(str(said), 300)}") from None


def _state(job: Any, pod: Any) -> JobState:
    if job is None:
        return JobState(phase=Phase.ENDED, words="Kubernetes does not know the job any more")
    node = (pod.spec.node_name or "") if pod else ""
    ends = [one for one in job.status.conditions or () if one.type in ("Complete", "Failed") and one.status == "True"]
    if ends:
        said = [ends[0].reason, ends[0].message, *([pod.status.reason, pod.status.message] if pod else [])]
        return JobState(phase=Phase.ENDED, words="" if ends[0].type == "Complete" else _joined(said), node=node)
    if pod is None:
        return JobState(phase=Phase.WAITING, words="Kubernetes: suspended" if job.spec.suspend else "")
    if pod.status.phase != "Pending":
        return JobState(phase=Phase.RUNNING, node=node)
    said = [one.message for one in pod.status.conditions or () if one.type == "PodScheduled" and one.status == "False"]
    held = [one.state.waiting for one in pod.status.container_statuses or () if one.state and one.state.waiting]
    said += [text for one in held for text in (one.reason, one.message)]
    wrong = any(one.reason in WRONG for one in held)
    return JobState(phase=Phase.LOST if wrong else Phase.WAITING, words=_joined(said), node=node)


def _joined(words: Sequence[str | None]) -> str:
    said = ": ".join(dict.fromkeys(one for one in words if one))
    return f"Kubernetes: {one_line(said, 300)}" if said else ""
