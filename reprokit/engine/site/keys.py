"""How values of the configuration are written, in TOML and in an environment variable. Pure.

A reader takes what TOML gave (or a variable's text) and the folder that relative paths start at. It raises ValueError
saying what it expects.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reprokit.core.errors import UsageError
from reprokit.core.near_match import near

ReadValue = Callable[[Any, Path], Any]


def read_text(value: Any, base: Path) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a text in quotes")
    return str(value).strip()


def read_path(value: Any, base: Path) -> Path | None:
    """``~`` is the home folder; a relative path starts at ``base``."""
    if not isinstance(value, str):
        raise ValueError("a path in quotes")
    return _below(base, value.strip()) if value.strip() else None


def _below(base: Path, text: str) -> Path:
    try:
        return (base / Path(text).expanduser()).resolve()
    except RuntimeError:
        raise ValueError("a path that starts with / where no home folder is known for ~") from None


def read_file(value: Any, base: Path) -> Path | None:
    path = read_path(value, base)
    if path is not None and not path.exists():
        raise ValueError(f"a file that exists; there is no {path}")
    return path


def read_url(value: Any, base: Path) -> str:
    text = read_text(value, base)
    if text and not re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/]|file:///", text):
        raise ValueError("a URL such as http://host:3128")
    return text


def read_web_address(value: Any, base: Path) -> str:
    text = read_text(value, base).rstrip("/")
    if text != "none" and not re.match(r"https?://[^\s/]", text):
        raise ValueError("a URL such as https://debuginfod.example, or none")
    return text


def read_host(value: Any, base: Path) -> str:
    text = read_text(value, base)
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*(:\d{1,5})?|\[[0-9A-Fa-f:]+\](:\d{1,5})?", text):
        raise ValueError("the name of a host, such as git.example or git.example:8443")
    return text.lower()


def read_image_registry(value: Any, base: Path) -> str:
    text = read_text(value, base).rstrip("/")
    name, part = r"[A-Za-z0-9][A-Za-z0-9-]*", r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
    host = rf"(?:{name}(?:\.{name})+(?::\d{{1,5}})?|{name}:\d{{1,5}}|localhost)"
    if text and not re.fullmatch(rf"{host}(?:/{part})*", text):
        raise ValueError("a registry and a path without https://, such as registry.example.com/reprokit")
    return text


def read_runtime(value: Any, base: Path) -> str:
    text = read_text(value, base)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}|", text):
        raise ValueError("the name of a runtime of the engine, such as runsc (see: docker info)")
    return text


def read_command(value: Any, base: Path) -> str:
    """Words of a program, split as a shell does; '' for none. A file below ``base`` is that one in every folder."""
    try:
        words = shlex.split(read_text(value, base))
    except ValueError as error:
        raise ValueError(f"a program and its arguments, with closed quotes ({error})") from None
    is_path = (bool(at or "/" in word) and (base / word).is_file() for at, word in enumerate(words))
    return shlex.join(str(_below(base, word)) if path else word for path, word in zip(is_path, words, strict=True))


def paths_in(value: Any) -> list[Path]:
    """The files and folders that the value of a key names, with their whole paths."""
    if isinstance(value, Mapping):
        return [path for one in value.values() for path in paths_in(one)]
    words = [value, *shlex.split(value)] if isinstance(value, str) else [value]
    return [Path(word) for word in words if isinstance(word, Path) or (isinstance(word, str) and word[:1] == "/")]


def read_place(value: Any, base: Path) -> str:
    """A URL, or a path of this host."""
    text = read_text(value, base)
    return text if "://" in text or not text else str(read_path(text, base))


def read_store(value: Any, base: Path) -> Path | str | None:
    """A folder, or the address of a database."""
    text = read_text(value, base)
    from reprokit.store import remote  # late: most stores are folders

    return _checked(remote.checked_address, text) if remote.is_address(text) else read_path(value, base)


def read_log_place(value: Any, base: Path) -> str:
    from reprokit.store import remote

    return _checked(remote.checked_files, read_text(value, base))


def _checked(check: Callable[[str], str], text: str) -> str:
    try:
        return check(text)
    except UsageError as error:
        raise ValueError(f"what can be used: {error}") from None


def read_index(value: Any, base: Path) -> str:
    """A URL of an index; a folder becomes one, since pip takes white space for the end of a location."""
    text = read_place(value, base)
    return Path(text).as_uri() if text.startswith("/") else text


def read_snapshot(value: Any, base: Path) -> str:
    text = read_url(value, base)
    if text and "{date}" not in text:
        raise ValueError("a URL with {date} where the date belongs, such as https://host/archive/{date}")
    return text


def _items(value: Any) -> list[Any]:
    """What a list holds; a text holds items between commas."""
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    if isinstance(value, list):
        return value
    return [value]


def list_of(parse: ReadValue) -> ReadValue:
    def parsed(value: Any, base: Path) -> tuple[Any, ...]:
        try:
            return tuple(parse(item, base) for item in _items(value))
        except ValueError as error:
            raise ValueError(f"a list, each {error}") from None

    return parsed


def one_of(*words: str) -> ReadValue:
    def parsed(value: Any, base: Path) -> str:
        text = read_text(value, base)
        if text not in words:
            raise ValueError(f"one of {', '.join(words)}{near(text, words, prefix='; ')}")
        return text

    return parsed


def ordered(*known: str) -> ReadValue:
    one = list_of(one_of(*known))

    def parsed(value: Any, base: Path) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(one(value, base)))
        if not found:
            raise ValueError(f"at least one of {', '.join(known)}")
        return found

    return parsed


def read_folders(value: Any, base: Path) -> dict[str, Path]:
    """name -> folder; ``NAME=DIR,NAME=DIR`` in a variable."""
    wanted = 'a table from names to folders, such as {cityscapes = "/data/cityscapes"}'
    if isinstance(value, str):
        pairs = [item.partition("=") for item in _items(value)]
        if not all(name and equals and folder for name, equals, folder in pairs):
            raise ValueError("NAME=DIR,NAME=DIR")
        value = {name.strip(): folder.strip() for name, _, folder in pairs}
    if not isinstance(value, Mapping) or not all(isinstance(folder, str) and folder for folder in value.values()):
        raise ValueError(wanted)
    return {str(name): _below(base, folder) for name, folder in value.items()}


def read_gpus(value: Any, base: Path) -> tuple[str, ...]:
    """``all`` (or nothing) is every GPU, ``none`` no GPU."""
    found = tuple(dict.fromkeys(read_text(item, base) for item in _items(value)))
    if found in ((), ("all",)):
        return ()
    if found == ("none",) or all(re.fullmatch(r"\d{1,4}|GPU-[0-9A-Za-z-]+", word) for word in found):
        return found
    raise ValueError('"all", "none", or a list of GPU indices and UUIDs such as [0, "GPU-8f1c..."]')


def in_unit(name: str) -> ReadValue:
    """A size, duration or count as case files spell them; None when empty."""

    def parsed(value: Any, base: Path) -> Any:
        text = str(value).strip()  # what is not a number either is reported by the unit
        if not text:
            return None
        from reprokit.case import units  # late: most configurations limit nothing

        return getattr(units, name)(text)

    return parsed
