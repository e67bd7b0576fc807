"""What a case is about and what it needs, derived from its cells instead of written by hand. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from reprokit.case.matrix import Cell, expand
from reprokit.case.model import Case
from reprokit.case.templates import RenderError, inspect, render_text

NEEDS = ("gpu", "network", "source", "data", "root")
"""What a case can need beyond an engine: a GPU, a network while it runs, a git tree, real data, the user root."""

FRAMEWORKS: Mapping[str, str] = {
    "torch": "torch",
    "paddlepaddle": "paddle",
    "paddlepaddle-gpu": "paddle",
    "tensorflow": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "tensorflow-gpu": "tensorflow",
    "jax": "jax",
    "keras": "keras",
    "mxnet": "mxnet",
    "mindspore": "mindspore",
    "numpy": "numpy",
    "cupy": "cupy",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "onnxruntime-gpu": "onnxruntime",
    "nni": "nni",
    "openexr": "openexr",
}
"""pip's canonical name of a package -> the framework that it is."""

ALIASES: Mapping[str, str] = {
    "pytorch": "torch",
    "tf": "tensorflow",
    "np": "numpy",
    "ort": "onnxruntime",
    **{package: framework for package, framework in FRAMEWORKS.items() if package != framework},
}
"""Other names under which people look for a framework."""

CUDA = "cuda"
"""The axis, and the framework of cases that have CUDA in their image."""

_BASE = "numpy"  # installed with nearly every other framework
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(?:==+\s*([^\s,;]+))?(?=$|[\s,;<>=!~@(])")


@dataclass(frozen=True, kw_only=True)
class CaseFacts:
    """``cells``: the case's own. ``frameworks`` and ``packages``: name -> versions, as its cells pin them.

    ``needs``: some of NEEDS, in that order.
    """

    cells: tuple[Cell, ...]
    frameworks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def facts(case: Case) -> CaseFacts:
    """Everything derived from one valid case."""
    cells = tuple(expand(case.matrix.axes, case.matrix.exclude, case.matrix.include))
    packages = _packages(case, cells)
    return CaseFacts(
        cells=cells,
        frameworks=_frameworks(case, packages, cells),
        packages=packages,
        needs=tuple(need for need in NEEDS if need in set(_needs(case, cells))),
    )


@lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """A package's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement(text: str) -> tuple[str, str] | None:
    """The canonical name and pinned version ('' without one) of a requirement; None for an address or a path."""
    found = _REQUIREMENT.match(text.strip())
    if not found or text.strip().lower().endswith((".whl", ".gz", ".zip")):
        return None
    return canonical(found[1]), found[2] or ""


def _packages(case: Case, cells: Sequence[Cell]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for text in (text for step in case.environment.pip_steps for text in step.requirements):
        for item in rendered(text, cells):
            wanted = requirement(item)
            if wanted:
                versions = found.setdefault(wanted[0], {})
                if wanted[1]:
                    versions[wanted[1]] = None
    return {name: tuple(versions) for name, versions in found.items()}


def _frameworks(case: Case, packages: Mapping[str, Sequence[str]], cells: Sequence[Cell]) -> dict[str, tuple[str, ...]]:
    """The frameworks among the packages, and CUDA.

    Most frameworks install NumPy: it counts only where there is no other, where a tag says so, or as an axis.
    """
    found: dict[str, tuple[str, ...]] = {}
    for package, versions in packages.items():
        if package in FRAMEWORKS:
            name = FRAMEWORKS[package]
            found[name] = tuple(dict.fromkeys((*found.get(name, ()), *versions)))
    toolkits = tuple(dict.fromkeys(cell[CUDA] for cell in cells if cell.get(CUDA, "none") != "none"))
    if toolkits:
        found[CUDA] = toolkits
    if len(found) > 1 and _BASE not in case.tags and not any(_BASE in cell for cell in cells):
        found.pop(_BASE, None)
    return found


def _needs(case: Case, cells: Sequence[Cell]) -> Iterator[str]:
    resources = case.resources
    if any(text.strip() not in ("", "0") for text in rendered(resources.gpus, cells)):
        yield "gpu"
    if "bridge" in {text.strip() for text in rendered(resources.network, cells)}:
        yield "network"
    if case.sources:
        yield "source"
    if any(not dataset.generate.strip() for dataset in case.datasets.values()):
        yield "data"
    if "root" in {text.strip() for text in rendered(resources.user, cells)}:
        yield "root"


def rendered(template: str, cells: Iterable[Mapping[str, str]]) -> list[str]:
    """The texts that a template comes to, each once: it is rendered once per combination of the axes that it names."""
    wanted = inspect(template)
    names = wanted.names | wanted.guarded
    combinations = {tuple((name, value) for name, value in cell.items() if name in names): None for cell in cells}
    texts: dict[str, None] = {}
    for combination in combinations:
        try:
            texts[render_text(template, dict(combination))] = None
        except RenderError:  # reported when the cell is run
            continue
    return list(texts)
