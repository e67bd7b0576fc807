"""The benchmarks: each module can be imported, and what their command line refuses or describes does not run."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import tests.bench
from tests.bench import __main__ as bench


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(tests.bench.__path__)])
def test_every_benchmark_can_be_imported(name: str) -> None:
    """They import what they measure when they run: a name that moved is found here rather than then."""
    importlib.import_module(f"tests.bench.{name}")


@pytest.mark.parametrize(
    ("words", "status"), [(["warm", "--help"], 0), (["throughput", "nothing"], 2), (["--none"], 2)]
)
def test_help_and_wrong_usage_run_no_benchmark(
    words: list[str], status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def runs(folder: object) -> None:
        raise AssertionError("a benchmark runs")

    for name in bench.BENCHES:
        monkeypatch.setitem(bench.BENCHES, name, runs)
    with pytest.raises(SystemExit) as ended:
        bench.main(words)
    assert ended.value.code == status
    said = capsys.readouterr()
    assert "throughput" in said.out or "usage:" in said.err
