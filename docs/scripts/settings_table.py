"""The table of all keys of the configuration in the pages about sites, from the fields of ``Settings``.

The English text stands below each field; the Chinese one is in ``settings_zh_cn.yaml``.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import yaml

from reprokit.engine.site import config

ROOT = Path(__file__).parents[2]
PAGES = {"en": ROOT / "docs" / "sites.md", "zh-CN": ROOT / "docs" / "sites.zh-CN.md"}
CHINESE = Path(__file__).with_name("settings_zh_cn.yaml")
BEGIN, END = "<!-- generated: all keys -->", "<!-- end of what is generated -->"
HEAD = {"en": "| key | meaning |", "zh-CN": "| 键 | 含义 |"}


class Undescribed(Exception):
    """A key without its text in one language, or a text without its key."""


def with_table(text: str, language: str) -> str:
    """A page with the table of today between the two comments. Raises Undescribed."""
    before, rest = text.split(BEGIN)
    found = english() if language == "en" else yaml.safe_load(CHINESE.read_text(encoding="utf-8"))
    if differing := set(found) ^ set(config.KEYS):
        where = "below the field in config.py" if language == "en" else CHINESE.name
        raise Undescribed(f"settings whose description ({where}) is missing, or is left over: {sorted(differing)}")
    rows = [f"| `{key}` | {found[key]} |" for key in config.KEYS]
    return f"{before}{BEGIN}\n\n" + "\n".join([HEAD[language], "|---|---|", *rows]) + f"\n\n{END}{rest.split(END)[1]}"


def english() -> dict[str, str]:
    """The text below each field of ``Settings`` that is a key."""
    (tree,) = ast.parse(inspect.getsource(config.Settings)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for one, after in zip(tree.body, tree.body[1:], strict=False):
        described = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if described and isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            found[one.target.id] = " ".join(ast.literal_eval(after.value).split()).removesuffix(".")
    return {name: text for name, text in found.items() if name != "origins"}
