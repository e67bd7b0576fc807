"""How people and programs write the versions of the known axes. Every reader returns ``""`` where a text does not say
the version of that axis itself: another compiler, the CUDA that a driver could serve, "not found". Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from reprokit.environment.catalog import OURS

VERSION = r"\d+(?:\.\d+)*"

PROJECTS = {
    "paddlepaddle": "paddle",
    "paddlepaddle-gpu": "paddle",
    "pytorch": "torch",
    "tensorflow": "tensorflow",
    "opencv": "opencv",
}
"""What reports call a framework -> the axis that cases name it by."""

_VERSION_OF = re.compile(r"\s*(?:version|版本号?)$")
_OTHER_COMPILER = re.compile(r"clang|msvc|visual|\bcl\b|\bic[cpx]+\b|intel|nvcc", re.IGNORECASE)
_PROCESSOR = re.compile(r"\b(?:x86(?:[_-]64)?|i[3-6]86|amd64|(?:32|64)[ -]?bits?)\b", re.IGNORECASE)
"""Numbers that do not name a release: ``#30-Ubuntu x86_64``, ``Ubuntu 64-bit``."""
_LTS = re.compile(r"(?<=\bubuntu)(\s?-?(?:1[468]|2[0246]))(?=\s|$|,)(?!\.)", re.IGNORECASE)
"""Releases of Ubuntu that come out in April of even years: ``Ubuntu 20 LTS``."""
_KERNEL = re.compile(r"-Ubuntu SMP\b.{0,80}", re.IGNORECASE)
"""When a kernel was built: ``#99-Ubuntu SMP Mon Oct 30 20:42:41 UTC 2023`` does not name a release 30."""
_NO_RELEASE = re.compile(r"(?:buster|bullseye|stretch|bookworm|trixie)[/-]sid", re.IGNORECASE)
_FAMILIES = re.compile(
    r"\b(ubuntu|debian|centos|rocky|almalinux|fedora|alpine|rhel|red hat enterprise linux|opensuse|"
    r"sles|suse linux enterprise server|amazon linux|oracle linux|scientific linux|pop!?_?os|"
    r"openeuler|euleros|anolis|kylin|deepin|uos|linux mint|raspbian|kali|slackware|mageia|"
    r"solaris|freebsd|openbsd|netbsd|aix)"
    rf"(?![a-z])[^\d\n]{{0,24}}({VERSION})",
    re.IGNORECASE,
)


def folded(key: str) -> str:
    """A key in small letters, without ``version`` behind."""
    return _VERSION_OF.sub("", key.strip().lower())


def python(text: str) -> str:
    """``3.11.3 (main, Apr  5 2023, 14:15:06) [GCC 9.4.0]``, ``Python 3.8``, ``CPython 3.10.12``."""
    return _first(re.match(rf"(?:c?python[ -]?)?v?({VERSION})", text, re.IGNORECASE))


def cuda(text: str) -> str:
    """``Build cuda_11.8.r11.8/compiler...`` as nvcc --version ends, ``release 11.8, V11.8.89``, or a bare version."""
    return _first(
        re.search(rf"release {VERSION}, v({VERSION})", text, re.IGNORECASE)
        or re.search(rf"cuda_({VERSION})|release ({VERSION})", text)
        or re.match(
            rf"(?:cuda(?: toolkit)?[ -]?)?v?({VERSION})(?:-\d{{1,3}})?\s*"
            r"(?:[，,;；。]|$|[(（](?!\s*(?:driver|驱动|nvidia-smi)))",
            text,
            re.IGNORECASE,
        )
    )


def cudnn(text: str) -> str:
    """``8.9``, ``cuDNN v8.9.7``; ``8907`` or ``90100`` as torch.backends.cudnn.version() says; the library's file."""
    if re.fullmatch(r"[1-9]\d{3,4}", text):
        number = int(text)
        major, rest = divmod(number, 10_000) if number >= 90_000 else divmod(number, 1000)
        return f"{major}.{rest // 100}.{rest % 100}"
    if libraries := set(re.findall(rf"libcudnn\w*\.so\.({VERSION})|cudnn64_({VERSION})\.dll", text)):
        files = {one or other for one, other in libraries}
        return files.pop() if len(files) == 1 else ""
    return _first(re.match(rf"(?:cudnn[ -]?)?v?({VERSION})", text, re.IGNORECASE))


def gcc(text: str) -> str:
    """``gcc (Debian 12.2.0-14) 12.2.0``, ``x86_64-linux-gnu-gcc-12``: what the brackets hold is the packager's."""
    if _OTHER_COMPILER.search(text):
        return ""
    bare = re.sub(r"\([^()]*\)", "", text)
    if "cmake" in bare.lower() and not re.search(r"g(?:cc|\+\+)", bare, re.IGNORECASE):
        return ""
    return _first(
        re.search(rf"\bg(?:cc|\+\+)[^\d,;]{{1,20}}({VERSION})", bare, re.IGNORECASE)
        or re.search(rf"(?<![\w.-])v?({VERSION})", bare)
        or re.search(rf"g(?:cc|\+\+)-?({VERSION})", bare, re.IGNORECASE)
    )


def os(text: str, own: Sequence[str] = ()) -> str:
    """``Ubuntu 20.04.6 LTS``, ``Debian GNU/Linux 12 (bookworm)``, ``...-with-Ubuntu-18.04-bionic``, as the axis has.

    A release that nothing here knows is still one: ``CentOS Linux release 7.9.2009`` is ``centos-7.9.2009``.
    ``debian-buster-sid`` is what Python before 3.8 took Ubuntu for: it says nothing. ``own``: values to look for first.
    """
    if (found := re.search(r"\.fc(\d\d)\.\w", text)) and glibc(text) in ("", _glibc_of(f"fedora-{found[1]}")):
        return f"fedora-{found[1]}"  # a package of Fedora's, or its kernel where no container has another C library
    text = re.sub(r"\bub[aunt]{3,5}u\b", "ubuntu", _NO_RELEASE.sub("", text), flags=re.IGNORECASE)
    text = _LTS.sub(r"\1.04", _PROCESSOR.sub("", text))
    text = re.sub(
        r"\bred ?hat ?(?:enterprise ?)?(?:linux ?)?(?:server|workstation)?"
        r"(?=[- ]?(?:release )?\d{1,2}(?:\.\d{1,2})?(?![.\d]|-\d))",  # not the packager of a GCC: (Red Hat 4.8.5-44)
        "rhel",
        text,
        flags=re.IGNORECASE,
    )
    if found := re.search(
        r"~(\d\d\.\d\d)(?:\.\d+)?-Ubuntu\b", text, re.IGNORECASE
    ):  # the version of a kernel, as uname says
        return f"ubuntu-{found[1]}"
    text = _KERNEL.sub("-Ubuntu", text)
    if found := re.search(r"\bdebian\b.*\+deb(\d{1,2})u", text, re.IGNORECASE):
        return f"debian-{found[1]}"
    text = _translated(text)
    releases = OURS.releases()
    for name in (*own, *releases):
        family, _, version = name.partition("-")
        if version and re.search(rf"\b{re.escape(family)}\D{{0,12}}{re.escape(version)}(?![\d])", text, re.IGNORECASE):
            return name
    if found := _FAMILIES.search(text):
        family = _CALLED.get(found[1].lower(), found[1].lower())
        mark = "v" if family == "kylin" else ""  # its releases are V10, V11
        return f"{family.replace(' ', '-')}-{mark}{found[2]}"
    words = set(re.findall(r"[a-z]+", text.lower()))
    return next((name for name, release in releases.items() if release.codename in words), "")


_CALLED = {
    "red hat enterprise linux": "rhel",
    "suse linux enterprise server": "sles",
    **dict.fromkeys(("pop!_os", "pop_os", "pop!os", "popos"), "pop"),
}


def family(text: str) -> str:
    """The distribution that a text names without a release: ``Ubuntu``, ``Arch Linux``; '' for none."""
    bare = re.sub(r"debian[- /]?\w*[/-]sid", "", _translated(text), flags=re.IGNORECASE)
    found = re.search(
        r"\b(ubuntu|debian|centos|rocky|almalinux|fedora|nobara|alpine|rhel|opensuse|openeuler|kylin|deepin|uos|arch|manjaro"
        r"|gentoo|slackware|mint|pop!?_?os|kali|nixos|void|solaris|illumos|aix|hp-ux|(?:free|open|net)bsd|euleros|anolis|raspbian)"
        r"(?:[ -]?linux)?\b",
        bare,
        re.IGNORECASE | re.ASCII,
    )
    return found[1].lower() if found else ""


def _translated(text: str) -> str:
    """A text with the Chinese names of distributions as they are called elsewhere."""
    text = re.sub(r"\b(amazon|oracle) linux(?: server)?\b", r"\1linux", text, flags=re.IGNORECASE)
    for name, called in (("麒麟", " kylin "), ("统信", " uos "), ("欧拉", " openeuler "), ("龙蜥", " anolis ")):
        text = text.replace(name, called)
    return text


def packaged(text: str) -> str:
    """The release whose package of GCC or glibc this is: ``(Ubuntu 9.4.0-1ubuntu1~20.04.1)``, ``(Debian 12.2.0-14)``.

    Ubuntu's packages name it; of Debian's it is the one release that has that version, if only one has.
    """
    if found := re.search(r"ubuntu[\d.]{0,8}~(\d\d\.\d\d)", text):
        return f"ubuntu-{found[1]}"
    found = re.search(rf"\((Debian|Ubuntu) (GLIBC )?({VERSION})-", text)
    if not found:
        return ""
    family, of_glibc, version = found[1].lower(), found[2], found[3]
    fitting = [
        name
        for name, release in OURS.releases().items()
        if release.family == family and (release.glibc == version if of_glibc else version in release.gcc.values())
    ]
    return fitting[0] if len(fitting) == 1 else ""


def glibc(text: str) -> str:
    """The glibc of ``platform.platform()``: ``Linux-5.10.0-x86_64-with-glibc2.31``; ``glibc-2.35``."""
    return _first(re.search(rf"glibc[- ]?({VERSION})", text, re.IGNORECASE))


def _glibc_of(name: str) -> str:
    row = OURS.releases().get(name)
    return row.glibc if row else ""


def with_glibc(version: str) -> tuple[str, ...]:
    """The releases of Debian and Ubuntu whose own glibc is that version, oldest first within each family."""
    rows = OURS.releases().items()
    return tuple(name for name, release in rows if version and release.bootstraps and release.glibc == version)


def _first(found: re.Match[str] | None) -> str:
    return next((group for group in found.groups() if group), "") if found else ""
