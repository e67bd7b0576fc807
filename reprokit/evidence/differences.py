"""How far two tensors are apart: number by number, exact for whole numbers of any size. Pure.

A number agrees with its reference if it is equal to it, or within ``atol + rtol * |reference|``, or at most ``ulp``
floating-point numbers of its dtype away. Nothing but itself agrees with an infinity, and nothing but NaN with NaN.

A second implementation. Library: numpy.testing.
Why not: it has no whole numbers of any size, as JSON has, no bfloat16, and gives no counts by size.
Owner of ours: the room ``evidence``.
"""

from __future__ import annotations

import math
import operator
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from reprokit.core.json_record import ABSENT, JsonRecord
from reprokit.core.text import one_line
from reprokit.evidence.tensors import FLOATS, NUMBER, Tensor

_CHUNK = 4096
NAN, INFINITE = "nan", "inf"
"""Keys of a histogram beside the decades: a number against NaN, or against an infinity."""
_BITS = {"float16": ("e", "H", 15), "float32": ("f", "I", 31), "float64": ("d", "Q", 63)}
_SIGNED = {2: ("h", -(1 << 15)), 4: ("i", -(1 << 31)), 8: ("q", -(1 << 63))}
"""Whole numbers of as many bytes, and the least of them: as which the bits of a floating-point number are compared."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What still counts as the same number. ``equal_nan``: whether NaN agrees with NaN."""

    rtol: float = 0.0
    atol: float = 0.0
    ulp: int = 0
    equal_nan: bool = False


@dataclass(frozen=True, kw_only=True)
class TensorDifference(JsonRecord):
    """One tensor against its reference.

    ``differing`` of ``elements`` numbers do not agree; the one that is furthest off is ``at`` its place, and has
    ``value`` where the reference has ``reference``. ``max_abs``, ``max_rel`` and ``max_ulp``: of all numbers that are
    not equal. ``decades``: how many of those are apart by 10 to which power, by the power in words.
    ``words``: a difference that is not of numbers; ``problem``: why the two cannot be compared, number by
    number; ``mismatch``: since their shape or dtype is another, or one is NaN everywhere.
    """

    name: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    elements: int = 0
    differing: int = 0
    at: str = field(default="", metadata=ABSENT)
    value: str = field(default="", metadata=ABSENT)
    reference: str = field(default="", metadata=ABSENT)
    max_abs: str = field(default="", metadata=ABSENT)
    max_rel: str = field(default="", metadata=ABSENT)
    max_ulp: str = field(default="", metadata=ABSENT)
    decades: Mapping[str, int] = field(default_factory=dict)
    words: str = field(default="", metadata=ABSENT)
    problem: str = field(default="", metadata=ABSENT)
    mismatch: bool = field(default=False, metadata=ABSENT)

    @property
    def differs(self) -> bool:
        """Whether it is another than its reference, beyond the tolerance."""
        return bool(self.differing or self.words)

    def __str__(self) -> str:
        """In words that follow the name: ``3 of 12 numbers differ, most at [0, 2]: 44 against 300 (...)``."""
        if self.problem or self.words:
            return self.problem or self.words
        if not self.differing:
            return f"all {self.elements} numbers agree"
        ulp = f", at most {self.max_ulp} ulp" if self.max_ulp else ""
        return (
            f"{self.differing} of {self.elements} numbers differ, most at {self.at}: {self.value} against "
            f"{self.reference} (at most {self.max_abs} apart, {self.max_rel} of the reference{ulp})"
        )


@dataclass(frozen=True, kw_only=True)
class ComparisonRecord(JsonRecord):
    """What the outputs of a cell were compared with, and how far they are from it.

    ``reference``: in words; '' where the cell is the reference. ``cell``: that of the reference, None for a file.
    ``tensors``: of the first trial that the verdict rests on; ``of``: how many were compared.
    """

    reference: str = ""
    cell: Mapping[str, str] | None = field(default=None, metadata=ABSENT)
    tensors: tuple[TensorDifference, ...] = ()
    of: int = 0


@dataclass(frozen=True, kw_only=True)
class Apart:
    """How far a number is from its reference; ``ulp`` is None where that means nothing."""

    absolute: float
    relative: float
    ulp: int | None


def difference(name: str, found: Tensor, reference: Tensor, tolerance: Tolerance) -> TensorDifference:
    """Compare two tensors. Those of another shape or dtype, or without any number but NaN, have a ``problem``."""
    shown = {"name": name, "dtype": found.dtype, "shape": found.shape, "elements": len(found.values)}
    if other := _other_words(found, reference):
        return TensorDifference(words=other, **shown)  # type: ignore[arg-type]
    if other := _not_comparable(found, reference):
        return TensorDifference(problem=other, mismatch=True, **shown)  # type: ignore[arg-type]
    seen = _Seen(found, reference, tolerance)
    if seen.both_nan >= 0:
        place = found.place(seen.both_nan)
        problem = f"NaN at {place}, in the reference too: equal_nan: true takes them for the same"
        return TensorDifference(problem=problem, **shown)  # type: ignore[arg-type]
    return TensorDifference(**shown, **seen.figures())  # type: ignore[arg-type]


def agrees(one: Any, reference: Any, tolerance: Tolerance, dtype: str) -> bool:
    """Whether a number, given as a value of Python, agrees with its reference. NaN agrees with NaN by ``equal_nan``."""
    if one == reference:
        return True
    if is_nan(one) or is_nan(reference):
        return tolerance.equal_nan and is_nan(one) and is_nan(reference)
    if not (_finite(one) and _finite(reference)):
        return False
    if _within(one, reference, tolerance):
        return True
    steps = ulps(one, reference, dtype) if tolerance.ulp else None
    return steps is not None and steps <= tolerance.ulp


def apart(one: Any, reference: Any, dtype: str) -> Apart:
    """How far two numbers that are not equal are apart; infinitely where one of them is NaN or infinite."""
    if not (_finite(one) and _finite(reference)):
        return Apart(absolute=math.inf, relative=math.inf, ulp=None)
    gap, size = _gap(one, reference), abs(reference)
    try:
        relative = float(gap / size) if size else math.inf
    except OverflowError:
        relative = _float(Fraction(gap) / Fraction(size))
    return Apart(absolute=_float(gap), relative=relative, ulp=ulps(one, reference, dtype))


def ulps(one: Any, reference: Any, dtype: str) -> int | None:
    """How many floating-point numbers of a dtype two finite ones are apart; None for whole numbers.

    Of complex numbers, the greater of both parts. -0.0 and 0.0 are the same.
    """
    if dtype.startswith("complex"):
        part = "float32" if dtype == "complex64" else "float64"
        return max(_steps(one.real, reference.real, part), _steps(one.imag, reference.imag, part))
    if dtype not in FLOATS or (isinstance(one, int) and isinstance(reference, int)):
        return None
    try:
        return _steps(float(one), float(reference), "float64" if dtype == NUMBER else dtype)
    except OverflowError:
        return None


def is_nan(value: Any) -> bool:
    """Whether it is NaN, or has a part that is."""
    return bool(value != value)


def _steps(one: float, reference: float, dtype: str) -> int:
    return abs(_ordered(one, dtype) - _ordered(reference, dtype))


def _ordered(value: float, dtype: str) -> int:
    """The number of a floating-point number in the order of all of its dtype."""
    code, bits, sign = _BITS.get(dtype, _BITS["float32"])
    number = int(struct.unpack(bits, struct.pack(code, value))[0])
    if dtype == "bfloat16":
        number, sign = number >> 16, 15
    size = number & ((1 << sign) - 1)
    return -size if number >> sign else size


def _finite(value: Any) -> bool:
    if isinstance(value, complex):
        return math.isfinite(value.real) and math.isfinite(value.imag)
    return isinstance(value, int) or math.isfinite(value)


def _gap(one: Any, reference: Any) -> Any:
    """The distance of two finite numbers; exact where it does not fit a float."""
    if isinstance(one, complex):
        return math.hypot(one.real - reference.real, one.imag - reference.imag)
    try:
        return abs(one - reference)
    except OverflowError:
        return abs(Fraction(one) - Fraction(reference))


def _within(one: Any, reference: Any, tolerance: Tolerance) -> bool:
    if not (tolerance.atol or tolerance.rtol):
        return False
    gap, size = _gap(one, reference), _size(reference)
    try:
        return bool(gap <= tolerance.atol + tolerance.rtol * size)
    except OverflowError:
        return bool(gap <= Fraction(tolerance.atol) + Fraction(tolerance.rtol) * Fraction(size))


def _size(value: Any) -> Any:
    return math.hypot(value.real, value.imag) if isinstance(value, complex) else abs(value)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _other_words(found: Tensor, reference: Tensor) -> str:
    """The first place where a document has another word, or another number of them; '' where all are the same."""
    for (place, word), (_, other) in zip(found.words, reference.words, strict=False):
        if word != other:
            return f"{place} is {one_line(word)[:80]!r} against {one_line(other)[:80]!r}"
    if len(found.words) != len(reference.words):
        return f"{len(found.words)} entries against {len(reference.words)}"
    return ""


def _not_comparable(found: Tensor, reference: Tensor) -> str:
    if found.shape != reference.shape:
        return f"its shape is {_shape(found)} against {_shape(reference)}"
    if found.dtype != reference.dtype:
        return f"its dtype is {found.dtype} against {reference.dtype}"
    for tensor, whose in ((found, "it"), (reference, "the reference")):
        if len(tensor.values) and tensor.dtype in FLOATS and all(map(is_nan, tensor.values)):
            return f"{whose} is NaN everywhere"
    return ""


def _shape(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


class _Seen:
    """What a pass over all numbers of two tensors comes to."""

    def __init__(self, found: Tensor, reference: Tensor, tolerance: Tolerance) -> None:
        self.both_nan = -1
        self._tensors = found, reference
        self._tolerance = tolerance
        self._differing = 0
        self._worst = (-1.0, 0)
        self._absolute = self._relative = 0.0
        self._ulp: int | None = None
        self._decades: Counter[str] = Counter()
        size = len(found.values)
        for start in range(0, size, _CHUNK):
            chunk = _Chunk(found, reference, start, min(start + _CHUNK, size))
            if chunk.same:
                continue
            if chunk.plain:
                self._add_all(chunk)
            elif not self._add_each(chunk):
                return

    def _add_all(self, chunk: _Chunk) -> None:
        """Finite real numbers, all at once: a tensor has millions."""
        gaps = list(map(abs, map(operator.sub, chunk.ones, chunk.others)))
        sizes, steps, allowed = list(map(abs, chunk.others)), chunk.steps(), self._tolerance
        bounds = [allowed.atol + allowed.rtol * size for size in sizes]
        over = list(map(operator.gt, gaps, bounds))
        if steps is not None:
            self._ulp = max(self._ulp or 0, *steps)
            if allowed.ulp:
                over = [far and step > allowed.ulp for far, step in zip(over, steps, strict=True)]
        if any(over):
            self._differing += sum(over)
            furthest = max(map(operator.mul, gaps, over))
            worst = (
                float(furthest),
                -chunk.start - next(at for at, gap in enumerate(gaps) if gap == furthest and over[at]),
            )
            self._worst = max(self._worst, worst)
        self._absolute = max(self._absolute, float(max(gaps)))
        self._relative = max(self._relative, max(map(_share, gaps, sizes)))
        self._decades.update(map(_decade, filter(None, gaps)))

    def _add_each(self, chunk: _Chunk) -> bool:
        """Numbers of any kind, one by one; False where NaN meets NaN, and that is not to be taken for the same."""
        dtype = self._tensors[0].dtype
        for at, (one, other) in enumerate(zip(chunk.ones, chunk.others, strict=True), chunk.start):
            if is_nan(one) and is_nan(other):
                if not self._tolerance.equal_nan:
                    self.both_nan = at
                    return False
            elif one != other:
                far = apart(one, other, dtype)
                if not agrees(one, other, self._tolerance, dtype):
                    self._differing += 1
                    self._worst = max(self._worst, (far.absolute, -at))
                self._absolute = max(self._absolute, far.absolute)
                self._relative = max(self._relative, far.relative)
                self._ulp = self._ulp if far.ulp is None else max(self._ulp or 0, far.ulp)
                self._decades[NAN if is_nan(one) or is_nan(other) else _decade(far.absolute)] += 1
        return True

    def figures(self) -> dict[str, Any]:
        """The fields of a :class:`TensorDifference` that say how far."""
        found, reference = self._tensors
        at = -self._worst[1]
        shown: dict[str, Any] = {"decades": dict(sorted(self._decades.items()))}
        if self._decades:
            ulp = "" if self._ulp is None else str(self._ulp)
            shown |= {"max_abs": f"{self._absolute:.3g}", "max_rel": f"{self._relative:.3g}", "max_ulp": ulp}
        if self._differing:
            shown |= {"differing": self._differing, "at": one_line(found.place(at))[:200]}
            shown |= {"value": _written(found.values[at]), "reference": _written(reference.values[at])}
        return shown


class _Chunk:
    """Some numbers of both tensors, from the index ``start`` on.

    ``same``: their bytes are, and none is NaN; ``plain``: none is complex, infinite, NaN, or of a document.
    """

    def __init__(self, found: Tensor, reference: Tensor, start: int, end: int) -> None:
        self.start = start
        self.ones, self.others = found.values[start:end], reference.values[start:end]
        self._dtype = found.dtype
        each = len(found.raw) // len(found.values)
        self._each = each if len(found.raw) == len(reference.raw) else 0
        here = slice(start * each, end * each)
        self._raws = found.raw[here], reference.raw[here]
        floating = found.dtype in FLOATS
        real = found.dtype != NUMBER and not found.dtype.startswith("complex")
        self.plain = real and (not floating or all(math.isfinite(sum(some)) for some in (self.ones, self.others)))
        self.same = (
            bool(self._each) and self._raws[0] == self._raws[1] and (self.plain or not any(map(is_nan, self.ones)))
        )

    def steps(self) -> list[int] | None:
        """How many floating-point numbers each is away from its reference; None where that means nothing."""
        if self._dtype not in FLOATS:
            return None
        if not self._each:
            pairs = zip(self.ones, self.others, strict=True)
            return [_steps(one, other, self._dtype) for one, other in pairs]
        code, least = _SIGNED[self._each]
        ones, others = ([n if n >= 0 else least - n for n in memoryview(raw).cast(code)] for raw in self._raws)  # type: ignore[call-overload]
        return list(map(abs, map(operator.sub, ones, others)))


def _share(gap: float, size: float) -> float:
    return gap / size if size else math.inf if gap else 0.0


def _decade(gap: float) -> str:
    if math.isinf(gap):
        return INFINITE
    # Of what is too small for a float, as a gap of two long fractions, the smallest decade.
    return str(math.floor(math.log10(gap or math.ulp(0.0))))


def _written(value: Any) -> str:
    if isinstance(value, int):
        return str(value) if abs(value) < 10**60 else f"a number of {value.bit_length()} bits"
    return repr(value) if isinstance(value, complex) else f"{value:.9g}"
