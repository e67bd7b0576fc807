"""What the words of an engine mean, so that no failure of ours or theirs becomes a finding. Pure.

By words, because its HTTP status is 500 for nearly everything. Unsupported: this host or engine cannot serve the cell.
BuildFailed: the Dockerfile's own step failed. EngineError: everything else, which says nothing about the case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from reprokit.core.errors import (
    BuildFailed,
    EngineError,
    EngineLost,
    ImageDamaged,
    ImageGone,
    ReprokitError,
    Unsupported,
)
from reprokit.engine.gpus.cdi import GENERATE
from reprokit.environment.steps import short_step

TAIL = 400
"""Last output lines of a failed step that engines keep: its cause may be far above what other programs add."""

LONGEST_LINE = 64 * 1024
"""Characters after which the output of a build that has no line ends is taken for a line."""

_NO_IMAGE = re.compile(r"no such image", re.I)
# Content of containerd's store and a layer of overlay2 that were deleted, and a user whom every image of ours has.
_DAMAGED_IMAGE = re.compile(
    r"content digest sha256:\w+: not found|/overlay2/\w+[^:]*: no such file|unable to find user repro\b", re.I
)
_NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.I)

# A daemon that lives, and whose containerd does not answer: it restarts within seconds, after an upgrade or a kill.
_AWAY = re.compile(
    r"rpc error: code = unavailable|error reading from server: EOF|connection error: desc =|transport is closing"
    # One that was upgraded, or replaced by an older one, after its version was asked.
    r"|client version \S+ is too (?:old|new)"
    r"|ttrpc: closed|containerd\.sock\b.*(?:refused|no such file)|(?:: |\A)unavailable\Z",
    re.I,
)
_NO_CONTAINER = re.compile(r"no such container", re.I)

# Text of the engine -> what to do, for failures that mean "this host cannot".
_UNSUPPORTED: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"could not select device driver", re.I),
        "the engine has no GPU runtime: install nvidia-container-toolkit, run 'nvidia-ctk runtime configure'",
    ),
    (
        # Of runc and crun, about a file that a CDI description names: NVIDIA/nvidia-container-toolkit issue 450.
        re.compile(r"(?:nvidia|libcuda)[\w.-]*\.so[\w.]*['`]?: no such file or directory", re.I),
        f"the CDI description of the GPUs is older than the driver: run '{GENERATE}'",
    ),
    (
        re.compile(r"unsatisfied condition", re.I),
        (
            "the image asks for a newer driver (its NVIDIA_REQUIRE_CUDA); the case starts it all the same with "
            'env: {NVIDIA_DISABLE_REQUIRE: "1"}'
        ),
    ),
    (
        re.compile(
            r"nvidia-container-cli|libnvidia-ml|unresolvable CDI device|unknown or invalid runtime name: nvidia", re.I
        ),
        "the GPU runtime refused: compare GPU ids and driver with what the case asks (nvidia-smi, reprokit doctor)",
    ),
    (
        # runc's and crun's words.
        re.compile(r"error setting rlimit|setrlimit [`']?RLIMIT_\w+", re.I),
        "a limit of resources.ulimits is more than the engine itself may have on this host",
    ),
    (
        re.compile(
            r"exec format error|no matching manifest for|does not match the (detected|specified) (host )?platform", re.I
        ),
        "the image is for another processor architecture than this engine's",
    ),
)

# Text of the engine -> what to do, for requests that the engine refused.
_HINTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        _NO_SPACE,
        (
            "the engine's disk is full: 'reprokit gc' shows and removes what reprokit keeps, 'docker system df' or "
            "'podman system df' the rest"
        ),
    ),
    (
        re.compile(r"unable to find user|no matching entries in passwd file", re.I),
        "the image has no such user: set resources.user to one that it has (root always exists)",
    ),
    (
        re.compile(r"container-init binary not found", re.I),
        "Podman has no init program for containers: install catatonit ('sudo apt-get install catatonit')",
    ),
    (
        re.compile(r"cgroups in hybrid mode not supported", re.I),
        "Podman's runtime crun does not serve this host's mixed cgroups: start 'podman --runtime runc system service'",
    ),
    (re.compile(r"unable to find group|no matching entries in group file", re.I), "the image has no such group"),
    (
        re.compile(
            r"cwd must be an absolute path|working directory .* is invalid|chdir to cwd|mkdir .*not a directory", re.I
        ),
        "the workdir cannot be used in this image: it has to be an absolute path to a folder",
    ),
    (
        re.compile(r"minimum memory limit allowed|range of cpus|invalid cpu|nano_?cpus", re.I),
        "a resource limit of the case is outside what this host's engine accepts",
    ),
    (
        re.compile(r"bind source path does not exist|invalid mount config", re.I),
        "a folder to be mounted does not exist",
    ),
)

# The daemon could not reach what it needed; the Dockerfile is not to blame.
_DAEMON_NETWORK = re.compile(
    r"dial tcp|no such host|i/o timeout|tls handshake timeout|connection (refused|reset)|network is unreachable"
    r"|context deadline exceeded|temporary failure in name resolution|server misbehaving|x509:|toomanyrequests"
    r"|client\.timeout exceeded|request canceled while waiting|proxyconnect",
    re.I,
)
# A registry's own refusals: 401 and 403 as engines put them, its failures (500, 503, 507), another protocol.
_NOT_ALLOWED = re.compile(r"unauthorized|authentication required|no basic auth|denied|forbidden|credential", re.I)
_REGISTRY_FAILED = re.compile(
    r"unexpected (http )?status|internal server error|service unavailable|bad gateway|insufficient storage"
    r"|server gave HTTP response to HTTPS client|there was no answer for",
    re.I,
)
_NO_SUCH_BASE = re.compile(
    r"manifest unknown|manifest for .* not found|pull access denied|repository does not exist|name unknown"
    r"|: not found$|invalid reference format",
    re.I,
)
_RUN_FAILED = re.compile(
    r"executor failed running .*: exit code: \d+|did not complete successfully: exit code|process .* exit code: \d+"
    r"|^while running runtime: exit status \d+$",
    re.I | re.S,
)
# buildah repeats the whole step, whose own words must not be taken for the engine's.
_BUILDAH_STEP = re.compile(r"(?:error )?building at STEP \".*?\": (?:error )?(?P<cause>.*)", re.S)
_BUILDAH_RUN = re.compile(r"while running runtime: exit status \d+$")
# How buildah says, among a step's output, that its runtime did not get as far as the step's program.
_BUILDAH_RUNTIME = re.compile(
    r"(?:error )?running container: (?:error )?from \S+ (?:creating|starting|running) container"
)
# The failing command as BuildKit repeats it, which may take pages.
_COMMAND = re.compile(r"(executor failed running \[|process \").*(\]: exit code|\" did not complete)", re.S)
_NOT_RUN = "executor failed running ["  # and then not with the exit code of what ran
_COPIES = re.compile(r"(?:COPY|ADD)\b")
_DAEMON_TROUBLE = re.compile(
    r"rpc error: code = (unavailable|internal)|runc run failed|failed to (create|start) (shim|containerd)"
    r"|no active session"
    r"|failed to get edge|layer does not exist|failed to compute cache key.*input/output error|read-only file system"
    r"|cannot allocate memory",
    re.I,
)


def of_engine(text: str) -> ReprokitError:
    """What a refusal of the engine (create, start, pull ...) means."""
    text = text.strip()
    if _NO_IMAGE.search(text):
        return ImageGone(f"the image is gone from the engine: build it again (was it pruned?). The engine says: {text}")
    if _DAMAGED_IMAGE.search(text):
        return ImageDamaged(f"the engine lost a part of the image (was its content deleted?). The engine says: {text}")
    if _AWAY.search(text):
        return EngineLost(f"the engine was replaced, or a part, such as its containerd, does not answer: {text}")
    for pattern, advice in _UNSUPPORTED:
        if pattern.search(text):
            return Unsupported(f"{advice}. The engine says: {text}")
    if _NO_CONTAINER.search(text):
        return EngineLost(f"another process removed the container while it ran. The engine says: {text}")
    for pattern, advice in _HINTS:
        if pattern.search(text):
            return EngineError(f"{advice}. The engine says: {text}")
    return EngineError(f"the container engine refused: {text}")


START_PODMAN = (
    "install Podman on this host, where reprokit starts its service ('sudo apt-get install podman'), or name in "
    "CONTAINER_HOST the address of a service that runs"
)


def of_connection(error: BaseException, where: str) -> EngineError:
    """Why no conversation with the engine at ``where`` came about, and what to do."""
    text = str(error)
    if "podman" in where and ("No such file or directory" in text or "refused" in text):
        return EngineLost(f"no Podman answers at {where}: {START_PODMAN}")
    if "Permission denied" in text or isinstance(error, PermissionError):
        return EngineError(
            f"this user may not talk to the container engine at {where}: add the user to the group 'docker' "
            "('sudo usermod -aG docker $USER', then log in again), use a rootless engine, or run with sudo"
        )
    if "No such file or directory" in text or "FileNotFoundError" in text:
        return EngineLost(
            f"no container engine listens at {where}: install one (Debian, Ubuntu: 'sudo apt-get install docker.io'; "
            "others: https://docs.docker.com/engine/install/) or start it ('sudo systemctl start docker'); "
            "DOCKER_HOST or 'docker context use' points elsewhere"
        )
    if "refused" in text:
        return EngineLost(
            f"the container engine at {where} does not answer: start it ('sudo systemctl start docker') and see "
            "'journalctl -u docker' if it stops again"
        )
    if "timed out" in text.lower():
        return EngineLost(f"the container engine at {where} did not answer in time: is the host overloaded? ({text})")
    return EngineLost(f"the conversation with the container engine at {where} broke off: {text}")


def of_build(message: str, *, step: str = "", tail: Sequence[str] = ()) -> ReprokitError:
    """What a failed build means. ``message`` is the engine's, ``step`` the failing instruction, ``tail`` its output.

    A RUN that fails because the *disk* is full is the host's trouble although the step exited non-zero; pip and apt
    then say "No space left on device" themselves, so the tail counts too.
    """
    message = _COMMAND.sub(r"\1...\2", message.strip())
    where = f" (step: {short_step(step)})" if step else ""
    if _NO_SPACE.search(message):
        return EngineError(f"{_HINTS[0][1]}{where}. The engine says: {message}")
    if full := next((line.strip() for line in tail if _full(line)), ""):
        return EngineError(f"{_HINTS[0][1]}{where}. The step says: {full}")
    if _RUN_FAILED.search(message) and not _DAEMON_TROUBLE.search(message):
        return BuildFailed(f"{step or 'the build'} failed: {message}", step=step, tail=tuple(tail))
    for pattern, advice in _UNSUPPORTED:
        if pattern.search(message):
            return Unsupported(f"{advice}. The engine says: {message}")
    if _AWAY.search(message):
        return EngineLost(f"a part of the engine, such as its containerd, does not answer{where}. It says: {message}")
    if _DAEMON_TROUBLE.search(message) or message.startswith(_NOT_RUN):
        return EngineError(f"the engine failed while it built: {message}{where}")
    if _DAEMON_NETWORK.search(message):
        return EngineError(
            "the engine could not fetch what the build needs: check its network, proxy and registry mirror, or set "
            f'base_images = "bootstrap" in reprokit.toml{where}. The engine says: {message}'
        )
    missing = _NO_SUCH_BASE.search(message) and not _COPIES.match(step)
    reason = f"{'there is no such base image: ' if missing else ''}{message}{where}"
    return BuildFailed(reason, step=step, tail=tuple(tail), reason=reason)


def _full(line: str) -> bool:
    """Whether a line says that a disk is full, rather than a device such as /dev/shm, which every container has."""
    return bool(_NO_SPACE.search(line)) and not re.search(r"/dev/(?:shm|full)\b", line)


def of_buildah(message: str, *, step: str = "", tail: Sequence[str] = ()) -> ReprokitError:
    """Like :func:`of_build`, for the words of buildah (seen with 1.28)."""
    found, ended = _BUILDAH_STEP.fullmatch(message.strip()), _BUILDAH_RUN.search(message.strip())
    cause = ended[0] if ended else found["cause"] if found else message
    trouble = next((line for line in tail if _BUILDAH_RUNTIME.match(line)), "")
    if trouble:
        return EngineError(
            "Podman's runtime cannot start the steps of a build; 'podman info' names it, 'podman --runtime runc system "
            f"service' takes another. It says: {trouble}"
        )
    return of_build(cause, step=step, tail=tail)


def of_pull(text: str, reference: str) -> ReprokitError:
    """Why an image that may well exist could not be pulled."""
    if _DAEMON_NETWORK.search(text) and not (_NO_SPACE.search(text) or _AWAY.search(text)):
        return EngineError(
            f"base-unavailable: the registry of {reference} does not answer the engine: check its network, proxy and "
            f"registry mirror. The engine says: {text.strip()}"
        )
    return of_engine(text)


def is_registry_down(text: str) -> bool:
    """Whether a registry that answered so, or not at all, will answer no better for the next image."""
    return bool(_DAEMON_NETWORK.search(text) or _NOT_ALLOWED.search(text) or _REGISTRY_FAILED.search(text))


def needs_login(text: str) -> bool:
    """Whether a registry refused what it was asked for without a login, or with one that may not."""
    return _NOT_ALLOWED.search(text) is not None


def of_push(text: str, reference: str) -> EngineError:
    """Why an image could not be sent to its registry."""
    if _NOT_ALLOWED.search(text):
        name = reference.partition("/")[0]
        return EngineError(f"the registry does not let you push: log in with 'docker login {name}'. It says: {text}")
    if re.search(r"\b50[07]\b|insufficient storage", text, re.I):
        name = reference.partition("/")[0]
        return EngineError(f"{name} failed to store the image, its disk may be full: see its log. It says: {text}")
    return EngineError(text.strip())


def is_missing_image(text: str) -> bool:
    """Whether a registry answered that it has no such image (as opposed to not answering)."""
    return bool(_NO_SUCH_BASE.search(text)) and not _DAEMON_NETWORK.search(text)
