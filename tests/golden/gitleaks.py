"""``python -m tests.golden.gitleaks gitleaks.toml``: the rules of gitleaks that know a token by its looks, one a line.

What is printed replaces those in ``reprokit/core/gitleaks.txt``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import tomllib

BY_NAME = "(?:=|>|:{1,3}="
SKIPPED = frozenset(
    """aws-access-token azure-ad-client-secret curl-auth-header curl-auth-user facebook-access-token freemius-secret-key
    gitlab-session-cookie hashicorp-tf-api-token jwt jwt-base64 kubernetes-secret-yaml maxmind-license-key
    nuget-config-password pkcs12-file private-key sidekiq-sensitive-url sourcegraph-access-token vault-service-token
    """.split()  # noqa: SIM905
)


def python(pattern: str) -> str:
    """A pattern of Go as Python writes it, without what it asks of the characters around and without groups."""
    pattern = re.sub(r"\(\?:\[\\x60'\"\\s;\]\|\\\\\[nr\]\|\$(?:\|\\b)?\)$", "", pattern)
    pattern = re.sub(r"\(\?:\[\^[^\]]*\]\|\\z\)$", "", pattern).replace("[[:alnum:]]", "[A-Za-z0-9]")
    whole = pattern.startswith("(?i)")
    pattern = pattern.removeprefix("(?i)").removeprefix(r"\b").removesuffix(r"\b")
    while flag := re.search(r"\(\?i\)", pattern):  # counts to the end of its group
        end = _end_of_group(pattern, flag.end())
        pattern = f"{pattern[: flag.start()]}(?i:{pattern[flag.end() : end]}){pattern[end:]}"
    pattern = re.sub(r"\{(\d+),\}", r"{\1,2000}", re.sub(r"\((?!\?)", "(?:", pattern))
    return f"(?i:{pattern})" if whole else pattern


def _end_of_group(pattern: str, at: int) -> int:
    depth = 0
    while at < len(pattern) and not (pattern[at] == ")" and depth == 0):
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == "[":
            at = pattern.index("]", at + 2)
        depth += {"(": 1, ")": -1}.get(pattern[at], 0)
        at += 1
    return at


if __name__ == "__main__":
    for rule in tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["rules"]:
        if rule.get("regex") and BY_NAME not in rule["regex"] and rule["id"] not in SKIPPED:
            print(rule["id"], python(rule["regex"]))
