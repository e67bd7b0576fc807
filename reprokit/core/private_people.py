"""How things look that say who and where someone is. Names of hosts and users are learned from what shows them (a
prompt, ``uname``, a home). Every pattern is bounded or possessive in effect, so that the time is linear in the text.
"""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Iterator
from datetime import date

KEPT_HOMES = frozenset({"repro", "linuxbrew", "Shared", "Public", "Default"})
_MOUNT = (
    r"(?:mnt|nfs|data|share|shared|public|storage|exports?|lustre|gpfs|beegfs|ceph|scratch|work|disk|ssd|raid|vol|net|afs)"
    r"\w{0,8}(?:/[\w.-]{1,40}){0,2}"
)
HOME = re.compile(
    r"/(?:(?<![A-Za-z\d_.~/-]/)|(?<=-[A-Za-z]/)|(?<=file:///))"
    rf"(?:(?:[\w.-]{{1,40}}/){{0,3}}(?:home|Users)|{_MOUNT}/(?:users|people|homes))/(?P<unix>\w[\w-]*(?:\.[\w-]+)*)"
    r"|[A-Za-z]:(?<![A-Za-z][A-Za-z]:)(?:\\{1,2}|/)Users(?:\\{1,2}|/)"
    r"(?P<windows>\w[\w-]*(?:[. ][\w-]+){0,3}(?=[\\/])|\w[\w.-]*)"
    r"|\\{2,4}[\w.-]{1,60}(?:\\{1,2}[\w$.-]{1,40}){0,2}\\{1,2}(?:home|Users|users|homes)\\{1,2}(?P<share>\w[\w.-]*)"
    r"|/(?<![\w.~/-]/)[a-z]/Users/(?P<msys>\w[\w.-]*)"
)
PROMPT = re.compile(
    r"^(?P<before>(?:\([\w./ -]{1,60}\) ?)?\[?)(?P<user>[A-Za-z_][\w.-]{0,40})@(?P<host>[A-Za-z0-9][\w.-]{0,80})"
    r"(?=(?::[^\n#$%>]{0,200}|[ ][^\n#$%>@:]{0,80}\]?)[#$%>])",
    re.MULTILINE,
)
SSH = re.compile(r"(?P<keep>[ \t=\"'])(?!git@)(?P<user>[A-Za-z_][\w.-]{0,40})@[A-Za-z0-9][\w.-]{0,80}")
_SSH = re.compile(r"\b(?:ssh|scp|sftp|rsync|mosh)\b")
_COMMAND = 200
"""Characters of a command in front of what may be a user at a host."""
AT_HOST = re.compile(r"(?<![\w.+@:/<-])(?!git@)(?P<user>[A-Za-z_][\w.+-]{0,63})(?=@<host>)", re.ASCII)
"""The user at a host whose name is known, and is taken out before anything else is looked for."""
EMAIL = re.compile(
    r"(?<![\w.+/-])(?!git@)[A-Za-z0-9_][\w.+-]{0,63}@(?=[A-Za-z\d])(?!example\.com(?!\.))"
    r"[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,5}\.[A-Za-z]{2,24}(?![A-Za-z\d])",
    re.ASCII,
)
_LABELS = r"[a-z\d][a-z\d-]{0,62}(?:\.[a-z\d-]{1,63}){0,4}"
_TOP = "com|cn|net|org|io|ai|de|eu|fr|uk|jp|kr|in|ru|ch|edu"
INTERNAL = re.compile(
    rf"(?<![\w.-])(?:(?=[a-z.]{{0,60}}[\d-]){_LABELS}\.(?:local|internal|private)"
    rf"|{_LABELS}\.(?:lan|corp|intranet|intra|localdomain|home\.arpa)"
    r"|(?:[a-z\d][a-z\d-]{0,62}\.){1,4}(?:corp|internal|intranet|intra|inner|lan)\.(?:[a-z\d-]{1,63}\.){0,2}"
    rf"(?:{_TOP}))(?![\w(-]|\.\w)"
    rf"|(?<=://){_LABELS}\.(?:internal|private|local)(?![\w-]|\.\w)",
    re.ASCII,
)
INTERNAL_HINT = re.compile(r"\.(?:local|internal|private|lan|corp|intra|inner|home\.arpa)")

_PRIVATE = r"(?:92\.168|72\.(?:1[6-9]|2\d|3[01])|69\.254|00\.(?:6[4-9]|[789]\d|1[01]\d|12[0-7])|0\.\d{1,3})"
IPV4 = re.compile(
    rf"1(?:(?<![\w.+~=-]1)|(?<=\w=1)){_PRIVATE}\.\d{{1,3}}\.\d{{1,3}}(?!\.?\w|-\d|\+)",
    re.ASCII,
)
VERSION_BEFORE = re.compile(
    r"(?i)(?:version|ver|v|release|cu\w+|lib\w+|tensorrt|nccl|toolkit|driver|runtime|nvcc|paddle\w*|torch\w*|nvidia[\w-]*)"
    r"[\"']?[ \t]{0,4}[:=(]?[ \t]{0,4}\Z"
)
"""What makes of ``10.2.1.243`` a version, as the libraries of CUDA 10 have them."""
IPV6 = re.compile(
    r"[fF](?<![\w:.][fF])(?i:e80|[cd][0-9a-f]{2})(?=:[0-9A-Fa-f:]{2})(?::[0-9A-Fa-f]{0,4}){2,7}(?:%\w{1,15})?(?![\w:])",
    re.ASCII,
)
MAC = re.compile(r"[0-9A-Fa-f]{2}(?P<by>[:-])(?:[0-9A-Fa-f]{2}(?P=by)){4}[0-9A-Fa-f]{2}(?![\w:.-])", re.ASCII)
NO_MAC = re.compile(r"(?:00.){5}00|(?:[Ff]{2}.){5}[Ff]{2}")
_UUID = "[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
GPU = re.compile(rf"(?:GPU|MIG(?:-GPU)?)-{_UUID}(?:/\d{{1,3}}){{0,2}}", re.ASCII)
SERIAL = re.compile(
    r"(?P<keep>(?:(?:(?i:id_)?[Ss](?i:erial)(?i:[ _-]?(?:number|num|no\.?|short|id))?|[Ss]/[Nn]|SN)|序列号)[\"']?"
    r"[ \t]{0,60}(?:[:=|│#][ \t]{0,8}|[ \t])[\"']?)"
    r"(?P<value>(?=[A-Za-z-]{0,20}\d)[A-Za-z0-9][A-Za-z0-9_-]{5,40})(?![\w.])"
)
MACHINE = re.compile(
    r"(?P<keep>(?:(?:[Mm](?i:achine)|[BbHh](?i:oot|ost|ardware)|[Ss](?i:ystem)|[Pp](?i:roduct)|[DdIi](?i:evice|nvocation))"
    rf"[ _-]?(?i:(?:uu)?id)|机器码|设备码)[\"']?[ \t]{{0,20}}(?:[:=|│]\s{{0,8}}|\s)[\"']?)"
    rf"(?P<value>[0-9a-f]{{32}}|{_UUID})(?!\w)"
)
HARDWARE_HINT = re.compile(r"[Ss]erial|SERIAL|[Ss]/[Nn]|SN|[Ii][Dd]|序列号|机器码|设备码")
PHONE_CN = re.compile(r"1[3-9]\d(?P<cut>[ -]?)\d{4}(?P=cut)\d{4}(?![\w-]|\.\d)", re.ASCII)
_CONTACT = re.compile(
    "(?i)phone|mobile|tel|cell|call|whatsapp|sms|contact|reach|user|account|login"
    "|手机|电话|联系|微信|号码|致电|拨打|账号|用户"
)
PHONE = re.compile(
    r"\+[1-9](?<![\w.+*/^-]\+.)(?<!^\+.)"
    r"(?:\d{0,2}(?:[ -]?\(\d{1,4}\)[ -]?\d|[ -]\d)(?:[ -]?\d){5,12}|\d{9,13})(?!\.?\w)",
    re.ASCII | re.MULTILINE,
)
ID_CARD = re.compile(
    r"[1-8]\d{5}(?<![\w.-]\d{6})(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx](?!\w|\.\d)", re.ASCII
)
MESSENGER = re.compile(
    r"(?P<keep>(?:微信|加\s?[Vv]|[Ww](?i:echat|eixin)|[VvWw][Xx](?<![A-Za-z\d_-]..)|(?P<qq>[Qq][Qq](?<![A-Za-z\d_-]..)))"
    r"[ \t]{0,2}(?i:群号|群|号码|号|id|account|no\.?|number|group)?[ \t]{0,2}"
    r"(?P<sure>(?i:is|是|为|[:=|│])[ \t]{0,3})?[`\"']?)"
    r"(?P<value>[A-Za-z][\w-]{5,19}|[1-9]\d{4,11})(?![\w.@/-])",
    re.ASCII,
)
MESSENGER_HINT = re.compile("微信|加 ?[Vv]|[Ww]e(?:[Cc]hat|ixin)|[VvWw][Xx]|[Qq][Qq]")

_HOST = "([A-Za-z0-9][A-Za-z0-9.-]{1,62})"
_USER = r"([A-Za-z_][\w.-]{1,40})"
_SAID = r"[ \t]{0,12}[:=|│][ \t]{0,8}[\"']?"
_SYSLOG = rf"^[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d {_HOST} [\w./-]{{1,40}}(?:\[\d{{1,8}}\])?:"
_SLURM = "SLURMD_NODENAME|SLURM_JOB_NODELIST|SLURM_NODELIST|PBS_O_HOST"
_Table = tuple[tuple[str, re.Pattern[str]], ...]
_LEARN_HOST: _Table = (
    ("Linux ", re.compile(rf"Linux (?<![^\n]Linux ){_HOST} \d{{1,2}}\.\d{{1,3}}\.\d")),
    ("node", re.compile(rf"node(?:name)?=[\"']{_HOST}[\"']")),
    ("ame", re.compile(rf"[HhNnCcSs](?i:ost ?name|ode ?name|omputer ?name){_SAID}{_HOST}")),
    ("名", re.compile(rf"(?:主机|机器|节点)名{_SAID}{_HOST}")),
    ("=", re.compile(rf"(?:HOSTNAME|COMPUTERNAME|NODENAME|HOST|{_SLURM})=[\"']?{_HOST}")),
    ("hostname\n", re.compile(rf"hostname\n(?<=[$#%>] hostname\n){_HOST}(?![^\n])")),
    ("] NCCL ", re.compile(rf"^{_HOST}:\d{{1,8}}:\d{{1,8}} \[\d", re.MULTILINE)),
    ("srun: error: ", re.compile(rf"srun: error: {_HOST}: task")),
    ("]: ", re.compile(_SYSLOG, re.MULTILINE)),
    (" kernel: ", re.compile(_SYSLOG, re.MULTILINE)),
)
"""What must be in a text, and then what shows the name of a host."""
_LEARN_USER: _Table = (
    ("whoami\n", re.compile(rf"whoami\n(?<=[$#%>] whoami\n){_USER}(?![^\n])")),
    ("uid=", re.compile(rf"uid=\d{{1,9}}\({_USER}\)")),
    ("=", re.compile(rf"(?:USER|LOGNAME|USERNAME|SUDO_USER)=[\"']?{_USER}")),
    ("--chown=", re.compile(rf"--chown={_USER}")),
    ("rw", re.compile(rf"^[-dlbcps](?:[r-][w-][xsStT-]){{3}}[.+@]? {{1,6}}\d{{1,4}} {{1,3}}{_USER} ", re.MULTILINE)),
)
MOST_LEARNED = 64
"""Names that are learned of one text; who plants more hides nothing of his own by it."""


def learn(text: str) -> tuple[list[str], list[str]]:
    """The names of hosts and of users that a text shows: by prompts, ``uname``, homes, settings and logs."""
    hosts: dict[str, None] = {}
    users: dict[str, None] = {}
    if "@" in text:
        for match in _first(PROMPT, text):
            users[match["user"]] = hosts[match["host"]] = None
    for names, table in ((hosts, _LEARN_HOST), (users, _LEARN_USER)):
        for hint, pattern in table:
            if hint in text:
                names.update((match[1], None) for match in _first(pattern, text))
    for match in homes(text):
        users[match["unix"] or match["windows"] or match["share"] or match["msys"]] = None
    return list(hosts)[:MOST_LEARNED], list(users)[:MOST_LEARNED]


def names_of_code(text: str) -> frozenset[str]:
    """What programs in a text import, include, install or use as a namespace: a user with such a name is no one's."""
    return frozenset(match[1] or match[2] for match in _first(_CODE_NAME, text))


_CODE_NAME = re.compile(
    r"(?:\b(?:import|from|namespace|pip3? install)[ \t]{1,4}|#include[ \t]{0,4}[<\"])([A-Za-z_]\w{1,40})(?!\w)"
    r"|(?<![\w:])([A-Za-z_]\w{1,40})::",
    re.ASCII,
)


def has_homes(text: str) -> bool:
    """Whether a text may hold a home directory."""
    return any(word in text for word in ("home", "Users", "users", "people"))


def homes(text: str) -> Iterator[re.Match[str]]:
    """The home directories of a text, the first of them."""
    return _first(HOME, text) if has_homes(text) else iter(())


def _first(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    for number, match in enumerate(pattern.finditer(text)):
        if number >= 50 * MOST_LEARNED:
            return
        yield match


def is_id_card(number: str) -> bool:
    """Whether 18 digits are the number of a Chinese identity card: a date in it, and the sum at its end."""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    try:
        date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    total = sum(int(digit) * weight for digit, weight in zip(number, weights, strict=False))
    return "10X98765432"[total % 11] == number[17].upper()


def is_remote(match: re.Match[str]) -> bool:
    """Whether a match of :data:`SSH` is behind a command that goes to another host."""
    start = match.start()
    begin = max(match.string.rfind(end, max(0, start - _COMMAND), start) for end in "\n|;&@")
    return _SSH.search(match.string, max(begin, start - _COMMAND, 0), start) is not None


def is_phone(match: re.Match[str]) -> bool:
    """Whether digits are a mobile phone's of China: written as one, behind +86, or behind a word that says so."""
    before = match.string[max(0, match.start() - 30) : match.start()]
    if re.search(r"(?:\+|00)86[ -]?\Z", before):
        return True
    if re.search(r"[\w.+/-]\Z", before, re.ASCII):
        return False
    return bool(match["cut"]) or _CONTACT.search(before.rpartition("\n")[2]) is not None


GENERIC = frozenset(
    {"localhost", "host", "server", "node", "desktop", "laptop", "docker", "builder", "runner", "build", "test"}
    | {"user", "users", "root", "admin", "nobody", "vagrant", "jovyan", "work", "data", "main", "home", "repro"}
    | {"ubuntu", "debian", "linux", "python", "conda", "gpu", "cuda", "torch", "pytorch", "paddle", "reprokit"}
)
"""Names of hosts and users that say nothing, and stand in texts for other things."""
ROBOTS = frozenset({"__token__", "oauth2", "oauth2accesstoken", "git", "token", "x-access-token", "anonymous", "aws"})
"""Names that services ask for beside a token."""
_WORDS = frozenset(
    """
    administrator app apps archlinux art aten audio azure base batch bill bin box cache case centos chat chef class
    client cloud cluster cmake code coder codespace compute config container core cpp cpu cron daemon dart dask dawn
    db deep default demo deploy dev devel developer dist django doc docs dog download earl engine env err error eval
    example fail faith fast fedora file files flask flax float foo frank full func gcc gitlab go grace grant graph
    group guest hadoop head hello hope hpc http https image images index infer inference info int intel jax jenkins
    jit job joy js jupyter keras kernel lab lang layer learning lib list llama llm local log login loss mac mail
    mark master max may mean media medium megatron min ml mlp mmcv mmdet mode model models mount my mysql names net
    network new nginx nlp none note notebook nova null num numpy nvcc nvidia office old onnx op ops opt oracle order
    out output package page pandas param pat path perf pip play podman pool port postgres power prince prod program
    project projects proxy public py query queue rank ray read reed release remote repo research result rich rob
    rocky rose run runs sample scipy script scripts search self sem server service setup shape share shared sky
    slave slurm small spark src ssh stack staging star start state step storage store student sudo sum sun support
    sync sys system table target task team temp tensor tensorflow term text theano thread time tiny title tmp tool
    tools train training transformers triton true type ubuntu update usb usr util utils val value var vast venv
    version video view vision vllm vm volume web will win win10 window windows word worker workspace world write
    yaml your zip
    """.split()  # noqa: SIM905
)


def is_word(name: str) -> bool:
    """Whether a name is one that texts have for other things too: only where it stands as a name is it removed."""
    low = name.lower()
    known = low in GENERIC | ROBOTS | _WORDS or keyword.iskeyword(low)
    return known or hasattr(builtins, low) or low in sys.stdlib_module_names
