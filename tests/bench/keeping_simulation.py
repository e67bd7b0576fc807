"""``python -m tests.bench.keeping_simulation [YEARS]``: a year of nights against a budget on the disk."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from reprokit.engine.protocol import BASE, IMAGE, Kept
from reprokit.run.keeping import plan_removals

GB = 10**9
DAY = 86400.0
NIGHTS = 365


@dataclass
class Year:
    """What happened. ``most``: bytes on the disk at most, at any moment; ``unmet``: nights that found no room."""

    builds: int = 0
    again: int = 0
    seconds: float = 0.0
    seconds_again: float = 0.0
    removed: int = 0
    most: int = 0
    unmet: int = 0
    kept: dict[str, Kept] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)

    @property
    def parts(self) -> dict[str, int]:
        """The layers on the disk."""
        return {part: size for one in self.kept.values() for part, size in one.parts.items()}


@dataclass(frozen=True)
class Layer:
    """A layer of an image: its id, its bytes, and the seconds that making it takes."""

    id: str
    size: int
    seconds: float


def nights(seed: int, count: int = NIGHTS) -> Iterator[list[list[Layer]]]:
    """The images of each night, each as its layers."""
    rng = random.Random(seed)
    bases = [Layer(f"base{n}", 80_000_000, 30.0) for n in range(3)]
    sizes = [int(GB * 0.2 * 25 ** rng.random()) for _ in range(12)]
    images = []
    for number in range(300):
        framework = rng.randrange(12)
        own = Layer(f"own{number}", rng.randrange(5, 200) * 10**6, rng.uniform(5.0, 60.0))
        images.append((rng.choice(bases), rng.randrange(4), framework, own))
    releases = [0] * 12
    weights = [1 / (1 + rank) for rank in range(len(images))]
    for night in range(count):
        if night % 30 == 29:
            releases[rng.randrange(12)] += 1
        chosen = dict.fromkeys([*range(10), *rng.choices(range(len(images)), weights, k=20)])
        yield [_layers(*images[number], releases=releases, sizes=sizes) for number in chosen]


def _layers(base: Layer, python: int, framework: int, own: Layer, releases: list[int], sizes: list[int]) -> list[Layer]:
    below = f"{base.id}-py{python}"
    release = f"{below}-fw{framework}.{releases[framework]}"
    return [
        base,
        Layer(below, 150_000_000, 25.0),
        Layer(release, sizes[framework], 20.0 + sizes[framework] / 40e6),
        Layer(f"{release}-{own.id}", own.size, own.seconds),
    ]


def simulate(budget: int, *, seed: int = 1, count: int = NIGHTS, costs: bool = True) -> Year:
    """A year. Without ``costs`` every byte costs the same, and what was used last counts alone."""
    year = Year()
    for night, images in enumerate(nights(seed, count)):
        for number, layers in enumerate(images):
            _use(year, layers, night * DAY + number * 300.0, budget, costs)
    return year


def _use(year: Year, layers: list[Layer], now: float, budget: int, costs: bool) -> None:
    key = layers[-1].id
    found = year.kept.get(key)
    if found is None:
        new = sum(layer.size for layer in layers if layer.id not in year.parts)
        while True:
            todo = plan_removals(year.kept.values(), now=now, budget=budget - new)
            for removal in todo.removals:
                del year.kept[removal.kept.key]
            year.removed += len(todo.removals)
            missing = [layer for layer in layers if layer.id not in year.parts]
            if sum(layer.size for layer in missing) == new or not todo.removals:
                break
            new = sum(layer.size for layer in missing)  # what it would have shared had to go too
        if todo.left + new > budget:
            year.unmet += 1
        seconds = sum(layer.seconds for layer in missing)
        year.builds += 1
        year.seconds += seconds
        if year.times[key]:
            year.again += 1
            year.seconds_again += seconds
        found = Kept(
            kind=IMAGE,
            key=key,
            name=key,
            parts={layer.id: layer.size for layer in layers},
            used=now,
            seconds=seconds if costs else None,
            needs=frozenset({layers[0].id}),
        )
        base = layers[0]
        year.kept.setdefault(
            base.id,
            Kept(kind=BASE, key=base.id, name=base.id, parts={base.id: base.size}, used=now, seconds=base.seconds),
        )
    year.times[key] += 1
    times = year.times[key] if costs else 1
    year.kept[key] = Kept(**{**vars(found), "used": now, "times": times})
    year.most = max(year.most, sum(year.parts.values()))


def main() -> None:
    """Print the figures of some budgets."""
    years = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for budget in (10, 20, 40, 80, 1000):
        for costs in (True, False):
            found = [simulate(budget * GB, seed=seed, costs=costs) for seed in range(years)]
            hours = [sum(getattr(year, name) for year in found) / years / 3600 for name in ("seconds", "seconds_again")]
            builds, again = (sum(getattr(year, name) for year in found) / years for name in ("builds", "again"))
            print(
                f"{budget:5} GB, {'worth' if costs else 'last use alone'}: at most "
                f"{max(y.most for y in found) / GB:.1f} GB, per year {builds:.0f} builds in {hours[0]:.1f} h, "
                f"of which again {again:.0f} in {hours[1]:.1f} h, without room {sum(y.unmet for y in found)}"
            )


if __name__ == "__main__":
    main()
