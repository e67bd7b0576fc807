"""The command line of the benchmarks: what it refuses or describes, it does not run."""

from __future__ import annotations

import pytest

from tests.bench import __main__ as bench


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
