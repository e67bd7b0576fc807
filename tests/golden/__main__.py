"""``python -m tests.golden``: record what the rules make of the golden logs now, by their versions."""

from __future__ import annotations

import json
import sys

from tests.golden.versions import FILE, changed, versioned


def main() -> int:
    """Write ``versions.json``; 1, and nothing written, where results changed under an unchanged version."""
    recorded = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    new = {}
    refused: list[str] = []
    for one in versioned():
        found = one.results()
        refused += filter(None, [changed(one, recorded, found)])
        new[one.name] = {"version": one.version, "logs": dict(sorted(found.items()))}
    if refused:
        print("\n".join(refused), file=sys.stderr)
        return 1
    FILE.write_text(json.dumps(new, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
