"""Numbers against their reference: properties, and the odd values of each dtype."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.evidence.differences import Tolerance, agrees, difference, ulps
from reprokit.evidence.tensors import NUMBER, Tensor

EXACT = Tolerance()
CODES = {"float32": "f", "float64": "d"}
numbers = st.floats(width=32) | st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45])


def tensor(values: Sequence[Any], dtype: str = "float64", shape: tuple[int, ...] | None = None) -> Tensor:
    code = {"float16": "f", "int64": "q", "uint64": "Q", "uint8": "B"}.get(dtype) or CODES.get(dtype)
    stored = array(code, values) if code else values
    raw = stored.tobytes() if dtype in CODES and isinstance(stored, array) else b""
    return Tensor(dtype=dtype, shape=(len(values),) if shape is None else shape, values=stored, raw=raw)


@given(st.lists(numbers, max_size=50), st.sampled_from(["float32", "float64"]))
def test_a_tensor_agrees_with_itself(values: list[float], dtype: str) -> None:
    found = difference("x", tensor(values, dtype), tensor(values, dtype), Tolerance(equal_nan=True))
    assert not found.differs
    assert found.decades == {}
    assert bool(found.problem) == (bool(values) and all(map(math.isnan, values)))


@given(st.lists(st.tuples(numbers, numbers), max_size=50), st.floats(0, 10), st.integers(0, 3))
def test_without_rtol_both_sides_are_the_same(pairs: list[tuple[float, float]], atol: float, ulp: int) -> None:
    ones, others = tensor([a for a, _ in pairs], "float32"), tensor([b for _, b in pairs], "float32")
    allowed = Tolerance(atol=atol, ulp=ulp, equal_nan=True)
    there, back = difference("x", ones, others, allowed), difference("x", others, ones, allowed)
    assert (there.differing, there.max_abs, there.max_ulp, there.decades) == (
        back.differing,
        back.max_abs,
        back.max_ulp,
        back.decades,
    )


@given(
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=40), st.floats(0, 2), st.floats(0, 2), st.integers(0, 9)
)
def test_a_pass_over_many_says_what_each_by_itself_does(
    pairs: list[tuple[float, float]], rtol: float, atol: float, ulp: int
) -> None:
    allowed = Tolerance(rtol=rtol, atol=atol, ulp=ulp, equal_nan=True)
    ones, others = tensor([a for a, _ in pairs], "float32"), tensor([b for _, b in pairs], "float32")
    found = difference("x", ones, others, allowed)
    alone = [agrees(a, b, allowed, "float32") for a, b in zip(ones.values, others.values, strict=True)]
    if not found.problem:
        assert found.differing == alone.count(False)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(0, 300))
def test_ulps_are_steps_of_the_next_number(value: float, steps: int) -> None:
    bits = struct.unpack("I", struct.pack("f", abs(value)))[0] + steps
    other = struct.unpack("f", struct.pack("I", bits))[0]
    if math.isfinite(other):
        assert ulps(abs(value), other, "float32") == steps
        assert ulps(-abs(value), -other, "float32") == steps


def test_ulps_pass_zero_and_both_zeros_are_one() -> None:
    least = math.ulp(0.0)
    assert ulps(-least, least, "float64") == 2
    assert ulps(-0.0, 0.0, "float64") == 0
    assert ulps(1.0, 1.0 + 2**-10, "float16") == 1
    assert ulps(1.0, 1.0 + 2**-7, "bfloat16") == 1
    assert ulps(complex(1, 2), complex(1, math.nextafter(2, 3)), "complex128") == 1


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_are_exact(one: int, other: int) -> None:
    found = difference("x", tensor([one], "int64"), tensor([other], "int64"), EXACT)
    assert found.differs == (one != other)
    assert difference("x", tensor([one], "int64"), tensor([other], "int64"), Tolerance(atol=2.0**65)).differs is False


@pytest.mark.parametrize(
    ("one", "other", "allowed", "same"),
    [
        (math.inf, math.inf, EXACT, True),
        (math.inf, -math.inf, Tolerance(rtol=9, atol=9), False),
        (1.0, math.inf, Tolerance(rtol=9), False),
        (1.7976931348623157e308, math.inf, Tolerance(ulp=9), False),
        (math.nan, math.nan, EXACT, False),
        (math.nan, math.nan, Tolerance(equal_nan=True), True),
        (math.nan, 1.0, Tolerance(rtol=9, equal_nan=True), False),
        (-0.0, 0.0, EXACT, True),
        (5e-324, 0.0, EXACT, False),
        (5e-324, 0.0, Tolerance(ulp=1), True),
        (1e308, -1e308, Tolerance(rtol=1), False),
        (10**400, 10**400 + 1, EXACT, False),
        (10**400, 10**400 + 1, Tolerance(rtol=1e-9), True),
        (10**400, 1.5, Tolerance(rtol=1e-9), False),
        (complex(3, 4), complex(3, 4.5), Tolerance(rtol=0.1), True),
        (complex(3, 4), complex(3, 5), Tolerance(rtol=0.1), False),
        (complex(1, math.nan), complex(1, 0), Tolerance(atol=9), False),
        (255, 0, Tolerance(atol=1), False),
    ],
)
def test_one_number(one: Any, other: Any, allowed: Tolerance, same: bool) -> None:
    dtype = "complex128" if isinstance(one, complex) else NUMBER
    assert agrees(one, other, allowed, dtype) is same
    found = difference("x", tensor([one, 0], dtype), tensor([other, 0], dtype), allowed)
    assert found.differs is (not same) or found.problem.startswith("NaN at [0], in the reference too: equal_nan: true")


def test_uint8_does_not_wrap_around() -> None:
    found = difference("x", tensor([0, 255], "uint8"), tensor([255, 0], "uint8"), Tolerance(atol=1))
    assert (found.differing, found.max_abs) == (2, "255")


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
def test_a_number_alone_and_no_number_at_all(shape: tuple[int, ...]) -> None:
    values = [2.0] if shape == () else []
    assert not difference("x", tensor(values, shape=shape), tensor(values, shape=shape), EXACT).differs
    assert bool(
        difference("x", tensor(values, shape=shape), tensor([1.0] * len(values), shape=shape), EXACT).differs
    ) == (shape == ())


def test_another_shape_or_dtype_and_nan_everywhere_are_not_compared() -> None:
    one = tensor([1.0, 2.0])
    assert difference("x", one, tensor([1.0, 2.0], shape=(1, 2)), EXACT).problem == "its shape is (2) against (1, 2)"
    assert difference("x", one, tensor([1.0, 2.0], "float32"), EXACT).problem == "its dtype is float64 against float32"
    nan = tensor([math.nan, math.nan])
    assert difference("x", nan, one, EXACT).problem == "it is NaN everywhere"
    assert difference("x", one, nan, EXACT).problem == "the reference is NaN everywhere"
    assert all(difference("x", *pair, EXACT).mismatch for pair in ((nan, one), (one, nan)))


def test_the_words_say_which_number_is_how_far_off() -> None:
    one, other = tensor([1.0, 2.0, 44.0, 0.5], shape=(2, 2)), tensor([1.0, 2.0, 300.0, 0.25], shape=(2, 2))
    found = difference("x", one, other, Tolerance(atol=0.3))
    assert str(found).startswith("1 of 4 numbers differ, most at [1, 0]: 44 against 300 (at most 256 apart, 1 of the ")
    assert found.decades == {"2": 1, "-1": 1}
    whole = Fraction(found.max_rel)
    assert whole == 1


def test_of_many_numbers_the_furthest_is_named_across_blocks() -> None:
    values = [float(at) for at in range(10_000)]
    others = list(values)
    others[9_000] += 5
    others[100] += 3
    found = difference("x", tensor(values, "float32"), tensor(others, "float32"), EXACT)
    assert (found.differing, found.at, found.max_abs) == (2, "[9000]", "5")
