# Runs in any interpreter of a user, including old ones: the rules for our own code do not apply here.
# ruff: noqa
# mypy: ignore-errors
"""The environment of this machine as Markdown for a bug report: system, Python, packages, compilers, CUDA, GPUs.

One file without dependencies, for Python 3.6 and later on Linux, macOS and Windows. It needs no network, changes
nothing, and waits at most 30 seconds for the programs that it asks. Names of users and hosts, home directories and secrets are left out;
read the text before you send it all the same. `reprokit new --from` reads it.

    python3 collect.py                          the environment, with all packages of this Python
    python3 collect.py --for train.py           with the packages that train.py imports
    python3 collect.py -- python3 train.py      run the failing command, too, and add how it ends
    python3 collect.py --with-source -- python3 train.py      and the text of train.py
    curl -s ADDRESS-OF-THIS-FILE | python3 -
"""

import os
import sys

# Files of the reporter, such as a random.py beside the script, must not stand in for modules of Python.
PATH = list(sys.path)
sys.path.sort(key=lambda folder: not folder.startswith(os.path.dirname(os.__file__)))

import argparse
import ast
import glob
import json
import platform
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time

FORMAT = "reprokit collect 1"
PROGRAM_SECONDS = 5.0
"""The most that one program of the system may take."""
ALL_SECONDS = 30.0
"""The most that all of them may take together."""
LONGEST = 1000
"""Characters of a value."""
LAST_LINES = 120
"""Lines of the command's output that are shown."""
LAST_BYTES = 20000
SOURCE_BYTES = 20000
"""Characters of a program that are shown."""
STARTED = time.time()

# -- what is private ---------------------------------------------------------------------------------------------------

GENERIC = frozenset(
    "root user users admin administrator ubuntu debian centos fedora docker runner runneradmin build builder dev test "
    "guest default worker jenkins gitlab github vscode jovyan python conda cuda local home data work app src lib "
    "localhost localdomain container node host server linux windows macos desktop laptop shared public".split()
)
"""Names that say nothing about a person or a machine."""
SECRET_NAME = re.compile(
    r"secret|token|passw|passphrase|credential|api_?key|access_?key|private_?key|auth|cookie|_key$|_pat$|_pwd$|dsn|webhook",
    re.IGNORECASE,
)
CONTROLS = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,4000}(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78cM])|[\x00-\x08\x0b-\x1f\x7f]"
)
"""Colours, titles of windows, links and other controls of terminals; they may be within a name or a token."""
TOKENS = re.compile(
    r"(?<![A-Za-z0-9_-])(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|gl(?:pat|ptt|dt|rt|cbt)-[\w=-]{20,}|(?:hf|api_org)_[A-Za-z0-9]{30,}"
    r"|(?:AKIA|ASIA|AKID|LTAI)[A-Za-z0-9]{12,}|AIza[\w-]{35}|ya29\.[\w-]{20,}|xox[a-z][-.][\w.-]{10,}|sk-[\w-]{20,}"
    r"|(?:sk|rk|pk)_(?:live|test)_\w{10,}|npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,}|dckr_\w{20,}|dapi[a-f0-9]{32}|nvapi-[\w-]{20,}"
    r"|gsk_[A-Za-z0-9]{40,}|r8_[A-Za-z0-9]{37}|SG\.[\w-]{16,}\.[\w-]{16,}|hv[sbr]\.[\w-]{20,}|\d{8,10}:AA[\w-]{33}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?)"
)
PATTERNS = (
    (
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]|-(?!----))*(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
        "<secret>",
    ),
    (r"(?m)(?:^[A-Za-z0-9+/=]{1,80}\n)+-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----", "<secret>"),
    (r"(?<=://)[^\s/?#'\"<>|\\]{1,300}@", "<secret>@"),
    (
        r"(?i)\b((?:proxy-)?authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:bearer|basic|token)?\s{0,4})[^\s\"'<>]{4,}",
        r"\1<secret>",
    ),
    (r"(?i)\b(bearer\s{1,4})[\w.~+/=-]{12,}", r"\1<secret>"),
    (
        r"(?i)((?<![\w.])--?[\w-]{0,40}(?:token|password|passwd|secret|api-?key)[ =]|(?:password|passwd|密码|口令)\s{0,3}(?:is|是|[:：=])\s{0,3}"
        r"|\b[\w.-]{0,60}(?:secret|token|passwd|password|passphrase|api_?key|access_?key|private_?key|_key|_pat)[\"']?\s{0,3}[=:]\s{0,3}[\"']?)"
        r"(?!none\b|null\b|true\b|false\b|<|\d+\b)[^\s\"'<>,;]{4,}",
        r"\1<secret>",
    ),
    (r"[\w.+-]{1,60}@[\w-]{1,60}(?:\.[\w-]{1,60}){1,5}", "<email>"),
    (r"(?<![\w.])(?<!==)(?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2}(?![\w.])", "<address>"),
    (r"(?<![\w:])(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}(?![\w:])", "<address>"),
    (r"\b(GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", r"\1-<id>"),
    (r"[\w-]{1,60}(?:\.[\w-]{1,60}){0,5}\.(?:local|lan|internal|intranet|corp|localdomain)\b", "<host>"),
    (r"(?<![A-Za-z])[A-Za-z]:[\\/]{1,2}Users[\\/]{1,2}(?:[\w. -]{1,60}(?=[\\/])|[^\\/\s\"']+)", "~"),
    (r"(?<![\w.~/-])(?:/[\w.-]{1,40}){0,2}/(?:home|Users)/[\w.-]+", "~"),
)
"""Text of which what is private follows from how it looks, and what is put in its place."""


def attempt(function, *arguments):
    """What a function gives; None where this machine does not let it."""
    try:
        return function(*arguments)
    except Exception:
        return None


def account():
    """The name of this process's user."""
    import getpass

    return getpass.getuser()


def private_words():
    """Patterns of what says who and where we are, and of the values of secret variables, with their replacements.

    In this order: a path may have the name of a user in it, and a secret anything.
    """
    environ = os.environ.get
    secrets = [
        value
        for name, value in os.environ.items()
        if SECRET_NAME.search(name) and len(value) >= 6 and not re.match(r"/|~|true$|false$|\d+$", value)
    ]
    found = [(re.escape(value), "<secret>") for value in longest_first(secrets)]
    here = (attempt(os.getcwd) or "") + os.sep
    for place in longest_first([here, os.path.expanduser("~"), environ("HOME", ""), environ("USERPROFILE", "")]):
        if place == here:
            found += [(re.escape(here), "." + os.sep)] if re.search(r"[\\/].*[\\/].*[\\/]", here) else []
        elif len(place) > 3 and place not in ("/root", "/nonexistent") and place.strip("/\\") not in GENERIC:
            found.append((re.escape(place.rstrip("/\\")) + r"(?![\w.-])", "~"))
    hosts = [platform.node(), attempt(socket.gethostname) or "", environ("HOSTNAME", ""), environ("COMPUTERNAME", "")]
    for word in longest_first(hosts + [host.partition(".")[0] for host in hosts]):
        found += named(word, "<host>", r"(?<=@)|(?<=://)")
    users = [environ(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")]
    for word in longest_first(users + [attempt(account) or "", os.path.basename(os.path.expanduser("~"))]):
        found += named(word, "<user>", r"(?<=[/\\])")
    return found


def longest_first(words):
    """The words, each once: one may be within another."""
    return sorted(set(words), key=lambda word: (-len(word), word))


def named(word, stands, before):
    """The patterns of a name: as a word where it is hardly one of something else, else only ``before`` it says so."""
    if len(word) < 3 or word.lower() in GENERIC:
        return []
    whole = re.escape(word) + r"(?![A-Za-z0-9])"
    if len(word) >= 8 or re.search(r"[\d._-]", word):
        return [(r"(?<![A-Za-z0-9])" + whole, stands)]
    return [("(?:" + before + ")" + whole, stands), (r"(?<![A-Za-z0-9])" + re.escape(word) + "(?=@)", stands)]


class ReportScrubber:
    """Takes out of a text what is private."""

    def __init__(self):
        words = attempt(private_words) or []
        self.patterns = [(re.compile(pattern), stands) for pattern, stands in words] + [(TOKENS, "<secret>")]
        self.patterns += [(re.compile(pattern), stands) for pattern, stands in PATTERNS]

    def text(self, text):
        """The text without what is private."""
        for pattern, stands in self.patterns:
            text = pattern.sub(stands.replace("\\", "\\\\") if stands[0] == "." else stands, text)
        return text

    def value(self, text):
        """As one line of limited length."""
        text = re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", self.text(str(text))).strip()
        return text if len(text) <= LONGEST else text[:LONGEST] + " ..."


# -- programs and files ------------------------------------------------------------------------------------------------


def output(*words):
    """What a program prints, '' where it is missing, does not start or takes too long."""
    left = min(PROGRAM_SECONDS, STARTED + ALL_SECONDS - time.time())
    path = shutil.which(words[0])
    if not path or left <= 0:
        return ""
    process = subprocess.Popen(
        [path] + list(words[1:]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=dict(os.environ, LC_ALL="C", LANGUAGE="C"), start_new_session=os.name == "posix",
    )  # fmt: skip
    box = []
    reader = threading.Thread(target=lambda: box.append(process.stdout.read(200000)), daemon=True)
    reader.start()
    reader.join(left)
    if reader.is_alive() or attempt(process.wait, 0.2) is None:
        attempt(kill, process, os.name == "posix")  # and no wait for it: a program may hang in the driver
    return (box[0] if box else b"").decode("utf-8", "replace")


def kill(process, leads):
    """Kill a process, and its children where it leads a group of its own."""
    if leads:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def text_of(path, most=200000):
    """The text of a file, '' where there is none."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as stream:
            return stream.read(most).decode("utf-8", "replace")
    except OSError:
        return ""


def line_with(pattern, text):
    """The first line of a text in which a pattern is, '' for none."""
    return next((line.strip() for line in text.splitlines() if re.search(pattern, line)), "")


def first(pattern, text):
    """What the first group of a pattern matches in a text, '' for nothing."""
    found = re.search(pattern, text)
    return found.group(1).strip() if found else ""


# -- the facts: each function gives (key, value) -----------------------------------------------------------------------


def system():
    """The system, its kernel and C library, the architecture, and the container."""
    kind = platform.system()
    if kind == "Darwin":
        yield "OS", "macOS " + platform.mac_ver()[0]
    elif kind == "Windows":
        yield "OS", "Windows " + " ".join(filter(None, (platform.release(), platform.version())))
    else:
        release = text_of("/etc/os-release") or text_of("/usr/lib/os-release")
        yield "OS", first(r"(?m)^PRETTY_NAME=[\"']?([^\"'\n]+)", release) or kind
    wsl = " (WSL)" if re.search("(?i)microsoft", platform.release()) else ""
    yield "Kernel", kind + " " + platform.release() + wsl
    yield "libc", attempt(os.confstr, "CS_GNU_LIBC_VERSION") if kind == "Linux" else ""
    yield "Architecture", platform.machine()
    kubernetes = "Kubernetes" if "KUBERNETES_SERVICE_HOST" in os.environ else ""
    podman = "Podman" if os.path.exists("/run/.containerenv") else ""
    docker = "Docker" if os.path.exists("/.dockerenv") else ""
    yield "Container", kubernetes or podman or docker or os.environ.get("container", "")


def python():
    """The Python that runs this, and the kind of its environment."""
    kind = platform.python_implementation()
    yield "Python", platform.python_version() + ("" if kind == "CPython" else " " + kind)
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        yield "Environment", "conda"
    elif sys.prefix != sys.base_prefix:
        yield "Environment", "virtual environment"


def compilers():
    """Compilers and CMake."""
    for key, words, pattern in (
        ("GCC", ("gcc", "--version"), r"^(?!.*clang).*\d+\.\d+"),
        ("G++", ("g++", "--version"), r"^(?!.*clang).*\d+\.\d+"),
        ("Clang", ("clang", "--version"), r"clang version \d"),
        ("CMake", ("cmake", "--version"), r"cmake version \d"),
    ):
        yield key, line_with(pattern, attempt(output, *words) or "")


def toolkit_folders():
    """Folders in which a CUDA toolkit may be, the reporter's own first."""
    folders = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")]
    return [folder for folder in folders + ["/usr/local/cuda", "/usr/lib/cuda"] if os.path.isdir(folder)]


def cuda():
    """nvcc, the toolkit's version file, and the libraries."""
    folders = toolkit_folders()
    found = output("nvcc", "--version")
    for folder in folders if not found else ():
        found = found or output(os.path.join(folder, "bin", "nvcc"), "--version")
    yield "NVCC", line_with(r"release \d+\.\d+", found)
    files = [attempt(json.loads, text_of(os.path.join(folder, "version.json"))) or {} for folder in folders]
    yield "CUDA toolkit", next(filter(None, ((one.get("cuda") or {}).get("version") for one in files)), "")
    yield "CUDA runtime", library("cudart")
    yield "cuDNN", cudnn_header() or library("cudnn")
    yield "NCCL", library("nccl")


def cudnn_header():
    """The version in cuDNN's header: file names mostly have its first number alone."""
    folders = ["/usr/include", "/usr/include/" + platform.machine() + "-linux-gnu"]
    folders += [os.path.join(folder, "include") for folder in toolkit_folders()]
    for text in (text_of(os.path.join(folder, "cudnn_version.h")) for folder in folders):
        if text:
            return ".".join(re.findall(r"#define\s+CUDNN_(?:MAJOR|MINOR|PATCHLEVEL)\s+(\d+)", text))
    return ""


def library(name):
    """The most precise version in the file names of a shared library."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)[:50]
    folders += [os.path.join(folder, sub) for folder in toolkit_folders() for sub in ("lib64", "lib")]
    folders += ["/usr/lib/" + platform.machine() + "-linux-gnu", "/usr/lib64", "/usr/local/lib"]
    places = [os.path.join(glob.escape(folder), "lib" + name + ".so.*") for folder in folders if folder]
    files = [os.path.realpath(file) for place in places for file in glob.glob(place)]
    found = [first(r"\.so\.(\d[\d.]*)$", file) for file in files]
    return max(filter(None, found), key=lambda text: (text.count("."), text), default="")


def gpus():
    """The driver and the GPUs."""
    said = output("nvidia-smi")
    yield "Driver", first(r"Driver Version:\s*([\d.]+)", said)
    yield "Driver supports CUDA", first(r"CUDA Version:\s*([\d.]+)", said)
    fields = "--query-gpu=index,name,memory.total"
    rows = output("nvidia-smi", fields + ",compute_cap", "--format=csv,noheader") if said else ""
    if said and not re.match(r"\d+, ", rows):  # an older one does not know the compute capability
        rows = output("nvidia-smi", fields, "--format=csv,noheader")
    for row in re.findall(r"(?m)^(\d+), ([^,\n]+), (\d+ MiB|\[[^\]]*\])(?:, (\d+)\.(\d+))?", rows)[:64]:
        arch = ", sm_{}{}".format(row[3], row[4]) if row[3] else ""
        memory = " ({})".format(row[2]) if "MiB" in row[2] else ""
        yield "GPU " + row[0], row[1] + memory + arch


def machine():
    """The processor and the memory, and what data loaders share through /dev/shm."""
    name = first(r"(?m)^(?:model name|Model|Hardware)\s*:\s*(.+)$", text_of("/proc/cpuinfo")) or platform.processor()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield "CPU", ", ".join(filter(None, (name, "{} usable".format(usable))))
    yield "Memory", size(int(first(r"MemTotal:\s*(\d+) kB", text_of("/proc/meminfo")) or 0) * 1024)
    limit = text_of("/sys/fs/cgroup/memory.max").strip()
    yield "Memory limit", size(int(limit)) if limit.isdigit() else ""
    shared = attempt(lambda: os.statvfs("/dev/shm"))
    yield "Shared memory", size(shared.f_frsize * shared.f_blocks) if shared else ""


def size(count):
    """Bytes in words, '' for none."""
    return "{:.1f} GiB".format(count / 2**30) if count else ""


BUILT = (
    ("PyTorch", "torch/version.py", r"(?m)^__version__[^=\n]*= *['\"]([^'\"]+)", r"(?m)^cuda[^=\n]*= *['\"]([\d.]+)", r"()$^"),
    (
        "PaddlePaddle", "paddle/version/__init__.py", r"(?m)^full_version *= *['\"]([^'\"]+)",
        r"(?m)^cuda_version *= *['\"]([\d.]+)", r"(?m)^cudnn_version *= *['\"]([\d.]+)",
    ),
)  # fmt: skip
"""Frameworks, the file that says for which CUDA they were built, and how: importing one takes long and may crash."""


def frameworks():
    """For which CUDA the installed frameworks were built."""
    for key, name, release, built, cudnn in BUILT:
        text = next(filter(None, (text_of(os.path.join(folder or ".", name)) for folder in PATH)), "")
        if text:
            toolkit, dnn = first(built, text), first(cudnn, text)
            parts = [first(release, text), "CUDA " + toolkit if toolkit else "no CUDA", "cuDNN " + dnn if dnn else ""]
            yield key + " build", ", ".join(filter(None, parts))


VARIABLES = re.compile(
    r"(?:CUDA|CUBLAS|CUDNN|NCCL|NVIDIA|TORCH|TORCHINDUCTOR|TORCHDYNAMO|PYTORCH|XLA|JAX|TF|FLAGS|PADDLE|GLOG|OMP|MKL|OPENBLAS"
    r"|KMP|NUMBA|TRITON|VLLM|HF|TOKENIZERS|HIP|HSA|MALLOC|ASAN|UBSAN|GLIBC)_[A-Z0-9_]+"
    r"|(?:LD|DYLD)_(?:LIBRARY_PATH|PRELOAD)|PYTHON(?:PATH|HASHSEED|MALLOC|UTF8|OPTIMIZE|FAULTHANDLER|DEVMODE|GIL|WARNINGS)"
    r"|CC|CXX|CFLAGS|CXXFLAGS|CPPFLAGS|LDFLAGS|MAX_JOBS|LANG|LC_ALL|LC_CTYPE|TZ|NV_CUDNN_VERSION|STRICT_MODE"
    r"|COST_MODEL|MIN_GRAPH_SIZE|SOT_LOG_LEVEL|ENABLE_FALL_BACK|WORLD_SIZE|MASTER_PORT"
)
"""Names of the variables that are shown; all others stay private."""
NOT_SHOWN = re.compile("HOST|ADDR|PROXY|URL|ENDPOINT|USER|EMAIL")
"""Parts of names of variables that name machines and people."""


def variables():
    """The environment variables that may matter."""
    for name in sorted(os.environ):
        if VARIABLES.fullmatch(name) and not SECRET_NAME.search(name) and not NOT_SHOWN.search(name):
            yield "env " + name, os.environ[name] or '""'


# -- packages ----------------------------------------------------------------------------------------------------------

PUBLIC = re.compile(r"https://(?:github\.com|gitlab\.com|gitee\.com|huggingface\.co)/[\w./-]+", re.IGNORECASE)
"""Where a package may be from without telling the name of a private server."""


class InstalledPackage:
    """An installed distribution."""

    def __init__(self, name, version, info, text):
        self.name, self.version, self.info, self.text = name, version, info, text

    def modules(self):
        """The names by which it is imported."""
        top = text_of(os.path.join(self.info, "top_level.txt")).split()
        files = text_of(os.path.join(self.info, "RECORD"), 5000000) if not top else ""
        parts = (re.match(r"\"?([A-Za-z_]\w*)(?:\.py|\.[\w.-]*so|\.pyd|/)", line) for line in files.splitlines())
        return set(top) | set(part.group(1) for part in parts if part)

    def origin(self):
        """Where it is from, if not from an index."""
        if text_of(os.path.join(self.info, "INSTALLER")).strip() == "conda":
            return ""
        said = attempt(json.loads, text_of(os.path.join(self.info, "direct_url.json"))) or {}
        commit = (said.get("vcs_info") or {}).get("commit_id", "")
        if commit and PUBLIC.fullmatch(said.get("url", "")) and re.fullmatch("[0-9a-f]{7,64}", commit):
            return "git+{}@{}".format(said["url"], commit)
        if (said.get("dir_info") or {}).get("editable"):
            return "editable"
        return "a repository" if commit else "a file" if said.get("url") else ""


def packages():
    """The distributions that this Python finds, in the order of their names."""
    found = {}
    for folder in (folder or "." for folder in PATH):
        for name in sorted(attempt(os.listdir, folder) or []):
            if name.endswith((".dist-info", ".egg-info")):
                info = os.path.join(folder, name)
                text = (
                    text_of(os.path.join(info, "METADATA")) or text_of(os.path.join(info, "PKG-INFO")) or text_of(info)
                )
                called, version = first(r"(?m)^Name: *(\S+)", text), first(r"(?m)^Version: *(\S+)", text)
                if re.fullmatch(r"[A-Za-z0-9][\w.-]*", called) and re.fullmatch(r"[\w.!+-]+", version):
                    key = re.sub(r"[-_.]+", "-", called).lower()
                    found.setdefault(key, InstalledPackage(called, version, info, text))
    return [found[key] for key in sorted(found)]


def as_json():
    """What this Python is, and its distributions with what they need, for `reprokit new`."""
    found = {}
    for one in packages():
        scripts = (
            text_of(os.path.join(one.info, "entry_points.txt")).partition("[console_scripts]")[2].partition("\n[")[0]
        )
        conda = text_of(os.path.join(one.info, "INSTALLER")).strip() == "conda"  # names the folder of its build
        found[one.name] = {
            "version": one.version,
            "modules": sorted(attempt(one.modules) or ()),
            "scripts": re.findall(r"(?m)^([\w.-]+)\s*=", scripts),
            "requires": re.findall(r"(?m)^Requires-Dist: *(.+)$", one.text.partition("\n\n")[0]),
            "direct": "" if conda else text_of(os.path.join(one.info, "direct_url.json")),
        }
    version, words, prefixes = platform.python_version(), " ".join(sys.version.split()), [sys.prefix, sys.base_prefix]
    return json.dumps({"version": version, "words": words, "prefixes": prefixes, "distributions": found})


def conda_packages():
    """What conda has in this environment: name=version=build."""
    files = glob.glob(os.path.join(glob.escape(sys.prefix), "conda-meta", "*-*-*.json"))
    return sorted("=".join(os.path.basename(file)[:-5].rsplit("-", 2)) for file in files)


def imports(script):
    """The modules that a program imports, and those that lie beside it, too."""
    waiting, seen, found = [script], set(), set()
    while waiting and len(seen) < 200:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in names_in(text_of(path, 2000000)):
            base = os.path.join(os.path.dirname(path), name)
            beside = [base + ".py"] + glob.glob(os.path.join(glob.escape(base), "*.py"))
            beside = [file for file in beside if os.path.isfile(file)]
            waiting += beside
            if not beside:
                found.add(name)
    return found


def names_in(text):
    """The first parts of the names that a program imports."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # of a later Python
        return set(re.findall(r"(?m)^\s*(?:import|from)\s+([A-Za-z_]\w*)", text))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


# -- the command -------------------------------------------------------------------------------------------------------


def run(words, seconds):
    """Run the failing command, showing its output; how it ended, and the end of its output as bytes."""
    shell, kept = len(words) == 1 and bool(re.search(r"\s", words[0])), bytearray()
    path = words[0] if shell else shutil.which(words[0]) or words[0]
    terminal = sys.stdin is not None and sys.stdin.isatty()
    leads = os.name == "posix" and not terminal  # at a terminal it has to read from it, and gets Ctrl-C by itself
    try:
        process = subprocess.Popen(
            path if shell else [path] + words[1:], shell=shell, stdin=None if terminal else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=leads,
        )  # fmt: skip
    except OSError as error:
        return "ended with exit status: 127 ({})".format(error.strerror or "it does not start"), kept
    reader = threading.Thread(target=attempt, args=(pass_on, process.stdout, kept), daemon=True)
    try:
        reader.start()  # what it shows may be answered with Ctrl-C before this returns
        status = process.wait(seconds or None)
        ended = "ended with exit status: {}".format(status) if status else "succeeded"
        if status < 0:
            name = attempt(lambda: signal.Signals(-status).name) or "signal {}".format(-status)
            ended = "ended with exit status: {} ({})".format(128 - status, name)
    except subprocess.TimeoutExpired:
        attempt(kill, process, leads)
        ended = "hangs: it was stopped after {:g} s".format(seconds)
    except KeyboardInterrupt:
        interrupted(process, leads)
        ended = "was interrupted"
    attempt(reader.join, 2)  # no longer: a process that it left behind may hold the pipe
    return ended, kept


def pass_on(stream, kept):
    """Read a stream to its end, show it as it comes, and keep its end."""
    for part in iter(lambda: os.read(stream.fileno(), 65536), b""):
        attempt(sys.stderr.buffer.write, part)
        attempt(sys.stderr.flush)
        kept += part
        del kept[: -20 * LAST_BYTES]


def interrupted(process, leads):
    """Let a process that hangs say where it was, as Python does at Ctrl-C; kill it where it does not end, or at another one."""
    if leads:  # one of our group has the signal already
        attempt(os.killpg, process.pid, signal.SIGINT)
    try:
        process.wait(PROGRAM_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        attempt(kill, process, leads)


# -- the text ----------------------------------------------------------------------------------------------------------


def fence(lines, info):
    """A fenced block that its own content cannot close."""
    runs = [len(one) for line in lines for one in re.findall("`{3,}", line)]
    marks = "`" * (max(runs, default=2) + 1)
    return [marks + info] + list(lines) + [marks]


def folded(title, lines):
    """A block that is folded away."""
    return ["", "<details><summary>{}</summary>".format(title), ""] + fence(lines, "text") + ["", "</details>"]


def facts(scrubber, other=""):
    """The lines of the environment block, and the names of what there is not. ``other``: the command's Python."""
    lines, absent = ["Python of the command: " + other] if other else [], []
    named_when_absent = ("GCC", "G++", "Clang", "CMake", "NVCC", "CUDA toolkit", "cuDNN", "NCCL", "Driver")
    for source in (system, python, compilers, cuda, gpus, frameworks, machine, variables):
        try:
            for key, value in source():
                value = scrubber.value(value or "")
                if value:
                    lines.append("{}: {}".format(key, value))
                elif key in named_when_absent:
                    absent.append(key)
        except Exception as error:  # the rest of this source: the report goes on
            lines.append("not read: {} ({})".format(source.__name__, type(error).__name__))
    return lines + (["not found: " + ", ".join(absent)] if absent else [])


def package_lines(found):
    """``name==version``, with where it is from if not from an index."""
    clean = ReportScrubber().text
    for one in found:
        origin = attempt(one.origin)
        line = "{}=={}".format(one.name, one.version)
        if clean(line) != line:  # a local build may have the host, the user or a token behind its version
            line = line.partition("+")[0]
        yield "{}{}".format(line, "  # from " + origin if origin else "")


def package_blocks(script):
    """The blocks about packages: those that the script imports, or all."""
    found = packages()
    head = FORMAT + ": packages of Python " + platform.python_version()
    if script:
        wanted = imports(script)
        chosen = [one for one in found if wanted & (attempt(one.modules) or set())]
        yield from ["", *fence([head + " that the program imports", *package_lines(chosen)], "text")]
        return
    yield from folded("Packages ({})".format(len(found)), [head, *package_lines(found)])
    conda = conda_packages()
    if conda:
        yield from folded("conda ({})".format(len(conda)), [FORMAT + ": packages of conda", *conda])


def command_block(words, ended, kept, scrubber):
    """The command with its last lines of output, and how it ended."""
    # The path of an interpreter is of this machine, and its version is above.
    first_word = os.path.basename(words[0]) if is_python(words[0]) else words[0]
    if len(words) == 1 and "\n" in words[0]:  # lines that the shell runs one after the other
        words, first_word = ["sh", "-c", words[0]], "sh"
    shown = words[0] if len(words) == 1 else " ".join(shlex.quote(word) for word in [first_word, *words[1:]])
    command = scrubber.text(CONTROLS.sub("", shown.replace("\r\n", "\n")))[: 20 * LONGEST].split("\n")
    text = kept.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    lines = scrubber.text(CONTROLS.sub("", text)).rstrip().split("\n")[-LAST_LINES:]
    while len(lines) > 1 and sum(map(len, lines)) > LAST_BYTES:
        lines.pop(0)
    yield from ["", "### What fails", ""]
    # As a shell shows a command of several lines.
    typed = ["$ " + command[0], *["> " + line for line in command[1:]]]
    yield from fence(typed + [line[-LAST_BYTES:] for line in lines if any(lines)], "console")
    cut = " The lines before these are left out." if text.count("\n") > len(lines) else ""
    yield from ["", "The command {}.{}".format(ended, cut)]


def source_block(script, scrubber):
    """The text of the program."""
    text = scrubber.text(text_of(script, SOURCE_BYTES + 1)) if script else ""
    if not text or len(text) > SOURCE_BYTES:
        yield from ["", "The text of the program is not shown: " + ("it is too long." if text else "there is none.")]
        return
    yield from ["", "`{}`:".format(scrubber.value(os.path.basename(script))), ""]
    yield from fence([re.sub("[\x00-\x08\x0b-\x1f\x7f]", "", line) for line in text.rstrip().splitlines()], "python")


def is_python(word):
    """Whether a word of a command is the name, or the path, of a Python."""
    return bool(re.match(r"(?:python|pypy|py)[\d.]*(?:\.exe)?$", os.path.basename(word)))


def other_python(words):
    """The version of the Python that a command runs in, where it is not this one; '' where it is."""
    said = output(words[0], "-c", "import sys; print(sys.version.split()[0] + '@' + sys.prefix)")
    release, _, prefix = said.strip().partition("@")
    same = not prefix or os.path.realpath(prefix) == os.path.realpath(sys.prefix)
    return "" if same or not re.match(r"\d+\.\d+", release) else release


def script_of(words):
    """The Python program that a command runs, '' for none."""
    if words and is_python(words[0]):
        return next((word for word in words[1:] if word.endswith(".py") and os.path.isfile(word)), "")
    return ""


def guarded(scrubber, lines):
    """The lines, up to what this machine does not let us read."""
    try:
        yield from lines
    except Exception as error:
        yield from ["", "not read: " + scrubber.value(type(error).__name__)]


def report(options, words):
    """All lines of the report."""
    scrubber = ReportScrubber()
    other = attempt(other_python, words) if words and is_python(words[0]) else ""
    ran = run(words, options.timeout) if words else None
    yield "### Environment"
    yield ""
    yield from fence([FORMAT, *facts(scrubber, other)], "text")
    script = options.script or script_of(words)
    if other:
        yield from ["", "The packages are not listed: the command runs in another Python than the one that ran this."]
    else:
        yield from guarded(scrubber, package_blocks(script))
    if options.with_source:
        yield from guarded(scrubber, source_block(script, scrubber))
    if ran:
        yield from guarded(scrubber, command_block(words, *ran, scrubber=scrubber))


def main(arguments):
    """Parse the arguments, and print the report; 0, or 130 after Ctrl-C."""
    if arguments == ["--as-json"]:
        print(as_json())
        return 0
    at = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(
        prog="collect.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="collect.py [--for SCRIPT] [--with-source] [--timeout SECONDS] [-- COMMAND...]",
    )  # fmt: skip
    parser.add_argument("--for", dest="script", default="", help="only the packages that this Python program imports")
    parser.add_argument("--with-source", action="store_true", help="add the text of that program, or of COMMAND's")
    parser.add_argument("--timeout", type=float, default=0, help="stop COMMAND after so many seconds")
    options = parser.parse_args(arguments[:at])
    if options.script and not os.path.isfile(options.script):
        parser.error("--for {}: no such file".format(options.script))
    try:
        text = "\n".join(report(options, arguments[at + 1 :])) + "\n"
        sys.stdout.buffer.write(text.encode(sys.stdout.encoding if sys.stdout.isatty() else "utf-8", "replace"))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        pass  # the reader has closed the pipe
    except OSError as error:
        sys.stderr.write("the report cannot be written: {}\n".format(error.strerror))
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
