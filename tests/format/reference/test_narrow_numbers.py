"""The numbers of lmc_narrow.py, which computes them with integers, beside those of assemble_narrow.py, which computes
them with the floats of Python: docs/format.md, section 4.2."""
import random

import pytest

import assemble_narrow
import lmc_narrow

WIDE = [assemble_narrow.f16_in_f32, lambda y: y << 16, assemble_narrow.f32_in_f64]


def factors_of(kind, numbers):
    if kind == lmc_narrow.FACTORS_LIST:
        return [lmc_narrow.parts(number, lmc_narrow.F32) for number in numbers]
    return [lmc_narrow.FACTOR_OF[kind](y) for y in range(256)]


def random_numbers(rng, exponent_min, exponent_max, count):
    """Positive F32; some of them have few digits."""
    masks = [0x7FFFFF, 0x7FFFF0, 0x7FF000, 0x780000]
    mantissas = [rng.getrandbits(23) & rng.choice(masks) for _ in range(count)]
    return [rng.randint(exponent_min, exponent_max) << 23 | mantissa for mantissa in mantissas]


@pytest.mark.parametrize("form", [lmc_narrow.NARROW_F16_IN_F32, lmc_narrow.NARROW_BF16_IN_F32])
def test_all_16_bits(form):
    assert all(lmc_narrow.WIDENED[form](y) == WIDE[form](y) for y in range(1 << 16))


def test_f32(seed):
    rng = random.Random(seed)
    ys = [rng.getrandbits(32) for _ in range(2000)]
    ys += [sign << 31 | e << 23 | m for sign in (0, 1) for e in (0, 1, 254, 255) for m in (0, 1, 0x400000, 0x7FFFFF)]
    assert all(lmc_narrow.widened_f32(y) == assemble_narrow.f32_in_f64(y) for y in ys)


@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("product_type", range(3))
def test_products(product_type, kind, seed):
    """Scales of all sizes, and for F16 those whose products are neither 0 nor infinity."""
    rng = random.Random(seed)
    sizes = [(lmc_narrow.SCALE_EXPONENT_MIN, lmc_narrow.SCALE_EXPONENT_MAX), (95, 142)]
    scales = [number for low, high in sizes for number in random_numbers(rng, low, high, 10)]
    listed = random_numbers(rng, lmc_narrow.FACTOR_EXPONENT_MIN, lmc_narrow.FACTOR_EXPONENT_MAX, 254) + [0, 1 << 31]
    listed = [number | rng.getrandbits(1) << 31 for number in listed]
    of_type = lmc_narrow.PRODUCT_TYPES[product_type]
    for y, parts in enumerate(factors_of(kind, listed)):
        number = assemble_narrow.factor(y, kind, listed)
        for scale in scales:
            expected = assemble_narrow.product(scale, number, product_type)
            assert lmc_narrow.product(scale, parts, of_type) == expected, (y, scale)
