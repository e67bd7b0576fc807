"""Packages that are older than the Python, setuptools or Cython that builds them."""

from __future__ import annotations

import re

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser

_PKG_RESOURCES = re.compile(r"ModuleNotFoundError: No module named 'pkg_resources'")
_2TO3 = re.compile(r"use_2to3 is invalid")
_DISTUTILS = re.compile(r"ModuleNotFoundError: No module named '(?P<module>distutils(?:\.\w+)*)'")
_COMPILER = re.compile(r"/numpy/distutils/ccompiler\.py.*\n(?:.*\n){0,4}?.*NameError: name 'CCompiler' is not defined")
_LEFT_OUT = frozenset({"distutils.msvccompiler", "distutils.msvc9compiler"})
"""Modules of the copy of distutils in setuptools that 73.0.1 has and 74.0.0 does not."""
_EARLIER = (
    "environment.pip_before with an earlier day, such as that of the report, builds it with the setuptools of that day"
)
_SETUPTOOLS = re.compile(
    r"ModuleNotFoundError: No module named 'setuptools'|BackendUnavailable: Cannot import '(?:setuptools)[\w.]*'"
    r"|Can not execute `setup.py` since setuptools is not available"
)
_BACKEND = re.compile(r"BackendUnavailable: Cannot import '(?P<name>[\w.]+)'")
_CYTHON = re.compile(r"'?build_ext'? object has no attribute 'cython_sources'|AttributeError: cython_sources")
_FINDER = re.compile(r"module 'pkgutil' has no attribute 'ImpImporter'")
_UNESCAPE = re.compile(r"'HTMLParser' object has no attribute 'unescape'")
_OLD_SETUPTOOLS = re.compile(r"/setuptools/__init__\.py\".*\n +import distutils\.core\n(?:.*\n)*?.*'distutils'")
_BEFORE = "without isolation, what a package needs to be built is installed in a step before it"
_DASHES = re.compile(r"error in (?P<name>\S+) setup command: (?P<said>.+)|InvalidConfigError: (?P<other>.+)")
_LICENSE = re.compile(r"configuration error: `project\.(?P<key>[\w.-]+)` (?P<said>.+)")


def _read(log: BuildLog) -> BuildCause | None:
    who = f"setup.py of {log.subject}" if log.subject else log.program
    if _PKG_RESOURCES.search(log.text):
        how = "build it without isolation (--no-build-isolation) beside" if log.subject else "it is in"
        return BuildCause(
            sentence=f"{who} imports pkg_resources, which is not installed: setuptools 82 and later do not have it",
            advice=f"{how} setuptools<82",
        )
    if _2TO3.search(log.text):
        return BuildCause(
            sentence=f"{who} uses use_2to3, which setuptools 58 and later refuse",
            advice="take a newer version of the package, or build it without isolation beside setuptools<58",
        )
    if _UNESCAPE.search(log.text):
        return BuildCause(
            sentence=f"{log.building} takes a setuptools that is too old for Python 3.9 and later",
            advice="move environment.pip_before to a later day, or take the Python that is reported",
        )
    if _FINDER.search(log.text) or _OLD_SETUPTOOLS.search(log.text):
        return BuildCause(
            sentence=f"{log.building} takes a setuptools that is too old for Python 3.12 and later",
            advice="take a version of the package that supports this Python, or an older Python",
        )
    if _CYTHON.search(log.text):
        return BuildCause(
            sentence=f"{log.building} does not work with Cython 3 (cython_sources)",
            advice="take a newer version of the package, or build it without isolation beside cython<3",
        )
    if _COMPILER.search(log.text):  # by ``import *``: 75.8.2 gives it, 75.9.0 does not
        return BuildCause(
            sentence=f"{who} needs CCompiler of distutils.ccompiler, which setuptools 75.9 and later do not export",
            advice=_EARLIER,
        )
    if (missing := _DISTUTILS.search(log.text)) and missing["module"] in _LEFT_OUT:
        return BuildCause(
            sentence=f"{who} imports {missing['module']}, which setuptools 74 and later do not have", advice=_EARLIER
        )
    if missing:
        return BuildCause(
            sentence=f"{who} imports distutils, which Python 3.12 and later do not have",
            advice="" if log.subject else "setuptools has a copy of it",
        )
    if _SETUPTOOLS.search(log.text):
        return BuildCause(
            sentence=f"{log.building} needs setuptools, which is not installed",
            put="" if log.subject else "environment.pip: [setuptools]",
            advice=_BEFORE,
        )
    return _refused(log)


def _refused(log: BuildLog) -> BuildCause | None:
    if "error: invalid command 'bdist_wheel'" in log.text:
        return BuildCause(
            sentence=f"{log.building} needs the package wheel, which is not installed (invalid command 'bdist_wheel')",
            advice=_BEFORE,
        )
    if backend := _BACKEND.search(log.text):
        return BuildCause(sentence=f"{log.building} needs its build backend {backend['name']}, which is not installed")
    if (wrong := _DASHES.search(log.text)) and log.subject:
        return BuildCause(sentence=f"setuptools refuses {log.subject}: {wrong['said'] or wrong['other']}")
    if wrong := _LICENSE.search(log.text):
        of = f" of {log.subject}" if log.subject else ""
        return BuildCause(sentence=f"setuptools refuses pyproject.toml{of}: project.{wrong['key']} {wrong['said']}")
    return None


PARSER = BuildParser(name="old-packages", read=_read, precedence=30)
