"""Builds from source that lack a compiler, a header, a library or a tool, and code that a compiler refuses."""

from __future__ import annotations

import re

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser
from reprokit.evidence.build_parsers import _debian

_NO_COMPILER = re.compile(
    r"(?:command|Command) '?(?P<a>[\w+./-]*(?:gcc|g\+\+|cc|c\+\+))'? failed: No such file or directory"
    r"|No such file or directory: '(?P<b>[\w+./-]*(?:gcc|g\+\+|cc|c\+\+))'"
    r"|unable to execute '(?P<c>[\w+./-]*(?:gcc|g\+\+|cc|c\+\+))': No such file"
    r"|(?P<d>No acceptable C compiler found|no acceptable C compiler found|Unknown compiler\(s\)"
    r"|No CMAKE_C(?:XX)?_COMPILER could be found)"
)
_HEADER = re.compile(r"fatal error: (?P<header>[\w./+-]+): No such file or directory")
_CLANG_HEADER = re.compile(r"fatal error: '(?P<header>[\w./+-]+)' file not found")
_LIBRARY = re.compile(r"ld: cannot find -l(?P<library>[\w.+-]+)")
_ERROR = re.compile(r"^ *(?P<where>[\w./+-]+\.\w+:\d+)(?::\d+)?: (?:fatal )?error: (?P<said>.+)", re.M)
_CMAKE = re.compile(
    r"CMake must be installed|Could not find.*\bcmake\b executable|No such file or directory: 'cmake'|CMake not found",
    re.M,
)
_TOOL = re.compile(
    r"No such file or directory: '(?P<a>pg_config|mysql_config|curl-config|pkg-config|swig|make|ninja|git|gfortran)'"
    r"|(?P<b>pg_config|mysql_config|curl-config) (?:executable )?(?:is )?(?:not found|was not found)"
    r"|Could not run (?P<c>curl-config)"
    r"|(?:/bin/sh: \d+: |sh: \d+: )(?P<d>[\w-]+): not found"
)
_PKG_CONFIG = re.compile(r"^Trying pkg-config --exists (?:mysqlclient|mariadb|libmariadb)$", re.M)
_WANTED = re.compile(
    r"headers or library files could not be found for (?P<a>\w+)"
    r"|following required packages can not be built:\s+\* (?P<b>\w+(?:, \w+)*)"
)
_XML = re.compile(r"make sure the libxml2 and libxslt development packages are installed")


def _read(log: BuildLog) -> BuildCause | None:
    return _header(log) or _tool(log) or _compiler(log)


def _header(log: BuildLog) -> BuildCause | None:
    if header := _HEADER.search(log.text) or _CLANG_HEADER.search(log.text):
        name = header["header"]
        return BuildCause(sentence=f"{log.building} needs the header {name}", put=_debian.of_header(name))
    return None


def _tool(log: BuildLog) -> BuildCause | None:
    if _CMAKE.search(log.text):
        return BuildCause(
            sentence=f"{log.building} needs CMake, which is not installed", put=_debian.of_program("cmake")
        )
    if _XML.search(log.text):
        return BuildCause(
            sentence=f"{log.building} needs the headers of libxml2 and libxslt",
            put="environment.apt: [libxml2-dev, libxslt1-dev]",
        )
    if _PKG_CONFIG.search(log.inner):
        return BuildCause(
            sentence=f"{log.building} needs pkg-config and the headers of MySQL or MariaDB",
            put="environment.apt: [default-libmysqlclient-dev, pkg-config]",
        )
    if wanted := _WANTED.search(log.inner):
        names = re.findall(r"\w+", wanted["a"] or wanted["b"])
        return BuildCause(
            sentence=f"{log.building} needs the headers of {' and '.join(names)}", put=_debian.of_libraries(names)
        )
    if log.subject and (tool := _TOOL.search(log.inner)):
        name = next(filter(None, tool.groups()))
        return BuildCause(sentence=f"{log.building} needs {name}, which is not installed", put=_debian.of_program(name))
    return None


def _compiler(log: BuildLog) -> BuildCause | None:
    if found := _NO_COMPILER.search(log.text):
        name = next((one for one in found.groups()[:3] if one), "gcc")
        which = f" ({name.rpartition('/')[2]})"
        sentence = f"{log.subject} is built from source" if log.subject else "the build compiles code"
        return BuildCause(
            sentence=f"{sentence}, and there is no C or C++ compiler{which}", put=_debian.of_program("gcc")
        )
    if library := _LIBRARY.search(log.text):
        return BuildCause(
            sentence=f"the linker does not find the library {library['library']} (-l{library['library']})"
        )
    if error := _ERROR.search(log.text):
        of = f" of {log.subject}" if log.subject else ""
        return BuildCause(sentence=f"the compiler refuses {error['where']}{of}: {error['said']}")
    return None


PARSER = BuildParser(name="compiling", read=_read, precedence=40)
