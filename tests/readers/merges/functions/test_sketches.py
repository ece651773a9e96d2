"""hll_sketch and theta_sketch: unions have the same bytes as DataSketches. Java wrote the hex literals."""

from __future__ import annotations

import datasketches as ds
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import VarBinaryType
from morrow.readers.merges.functions.sketches import merge_hll, merge_theta
from tests.support.aggregates import function, stepped

BYTES = VarBinaryType()

# Sketches of the values 1, 2, 3 and 3, 4, made by Paimon's own functions.
HLL_123 = "0201070c030803002bf2fb06862ff90d75816607"
HLL_34 = "0201070c030802007581660781bc5d06"
HLL_1234 = "0201070c030804007581660781bc5d062bf2fb06862ff90d"
THETA_123 = "02030300001acc93030000000000803f15f97dcbbd86a105c397fc1281709d1eba40b3c1da06695d"
THETA_34 = "02030300001acc93020000000000803f40de2ee1c9db3d08ba40b3c1da06695d"
THETA_1234 = "02030300001acc93040000000000803f15f97dcbbd86a10540de2ee1c9db3d08c397fc1281709d1eba40b3c1da06695d"

# lg k 4, values 0..39 and 30..69: no longer coupons, so their union is out of order.
HLL_LOW = "0a01070400080102c65a5653f5be40400000000000f00e40000000000000000005000000000000000300025222141106"
HLL_HIGH = "0a01070400080002ba5fc3fd7e4a3a400000000000f81640000000000000000002000000000000002371216100252141"
HLL_BOTH = "0a0107040018010200000000000000000000000000800340000000000000000001000000000000001360125222141136"

# Out of order, with three coupons: Java's union also updates an estimate that is no longer used.
HLL_UNORDERED = (
    "0a01070500180002000000000000000000000000001e23400000000000000000040000000000000042701444222250051221168033432215",
    "0201070c0308030802404f0681c9960e30be4c07",
    "0a010705001800029060cb183dc80a4000000000001e22400000000000000000030000000000000042711444222250051221168033432215",
)
# Reduced from lg k 7 to 5 before two coupons are added.
HLL_SMALLER = (
    "0a01070700080002ae48574c52606c4000000000401e48400000000000000000160000000000000050025245104111420040210442401312"
    "535124331207101012021231214642220522342012424012332147464301202312190001321323221112242412110220",
    "02010705030802005b442316bb269a07",
    "0a01070500080202ce5fd7ef51d26d400000000000e405400000000000000000040000000000000033373223102521201120252421342101",
)

THETA_EMPTY = "01030300001e0000"
THETA_7 = "01030300003acc93e0f48bea9983c37c"


@pytest.mark.parametrize(
    ("name", "first", "second", "union"),
    [
        ("hll_sketch", HLL_123, HLL_34, HLL_1234),
        ("hll_sketch", HLL_LOW, HLL_HIGH, HLL_BOTH),
        ("hll_sketch", *HLL_UNORDERED),
        ("hll_sketch", *HLL_SMALLER),
        ("theta_sketch", THETA_123, THETA_34, THETA_1234),
        ("theta_sketch", THETA_EMPTY, THETA_7, THETA_7),
        ("theta_sketch", THETA_EMPTY, THETA_EMPTY, THETA_EMPTY),
    ],
)
def test_the_bytes_are_those_of_java(name: str, first: str, second: str, union: str) -> None:
    assert stepped("agg", name, BYTES, [(bytes.fromhex(first), bytes.fromhex(second))]) == [bytes.fromhex(union)]


def test_update_sketches_are_read() -> None:
    """Java's updatable theta sketch stores its hashes in the slots of a hash table."""
    one, two = "15f97dcbbd86a105", "c397fc1281709d1e"
    head = "c30302040500cc93020000000000803fffffffffffffff7f"
    table = "00" * 24 + two + "00" * 160 + one + "00" * 56
    union = stepped("agg", "theta_sketch", BYTES, [(bytes.fromhex(head + table), bytes.fromhex(THETA_7))])
    assert union == [bytes.fromhex("02030300001acc93030000000000803f" + one + two + "e0f48bea9983c37c")]


@pytest.mark.parametrize("name", ["hll_sketch", "theta_sketch"])
def test_one_value_alone_is_not_even_read(name: str) -> None:
    pairs = [(None, None), (b"junk", None), (None, b"junk")]
    assert stepped("agg", name, BYTES, pairs) == [None, b"junk", b"junk"]
    assert function(name, BYTES).retract({"value": pl.col("acc")}, pl.col("new")) is None


@pytest.mark.parametrize("junk", ["", "00", "deadbeef" * 4, HLL_LOW[:-2], THETA_123[:-2]])
@pytest.mark.parametrize(("name", "good"), [("hll_sketch", HLL_123), ("theta_sketch", THETA_123)])
def test_what_is_no_sketch_is_refused(name: str, good: str, junk: str) -> None:
    for pair in ((good, junk), (junk, good)):
        with pytest.raises(Unsupported, match=f"the aggregate function {name}: .*it is not a sketch"):
            stepped("agg", name, BYTES, [tuple(map(bytes.fromhex, pair))])


def test_another_seed_is_refused() -> None:
    other = ds.update_theta_sketch(12, 1.0, 123)
    other.update(1)
    with pytest.raises(Unsupported, match="it is not a sketch"):
        stepped("agg", "theta_sketch", BYTES, [(bytes.fromhex(THETA_123), other.compact().serialize())])


VALUES = st.one_of(st.sets(st.integers(0, 99), max_size=9), st.builds(lambda n: set(range(n)), st.integers(0, 3000)))


@given(VALUES, VALUES)
def test_a_theta_union_counts_all_values_while_they_fit(first: set[int], second: set[int]) -> None:
    images = []
    for values in (first, second):
        sketch = ds.update_theta_sketch(12)
        for value in values:
            sketch.update(value)
        images.append(sketch.compact().serialize())
    union = ds.compact_theta_sketch.deserialize(merge_theta(*images, function="theta_sketch"))
    assert union.get_estimate() == len(first | second)


KINDS = st.sampled_from([ds.tgt_hll_type.HLL_4, ds.tgt_hll_type.HLL_6, ds.tgt_hll_type.HLL_8])


@given(VALUES, VALUES, st.tuples(st.integers(4, 12), st.integers(4, 12)), st.tuples(KINDS, KINDS), st.booleans())
def test_an_hll_union_is_near_what_one_sketch_of_all_says(
    first: set[int],
    second: set[int],
    sizes: tuple[int, int],
    kinds: tuple[ds.tgt_hll_type, ds.tgt_hll_type],
    compact: bool,
) -> None:
    """Also: no valid image of any mode, type and size is taken for a damaged one."""
    images = []
    for values, size, kind in zip((first, second), sizes, kinds):
        sketch = ds.hll_sketch(size, kind)
        for value in values:
            sketch.update(value)
        images.append(sketch.serialize_compact() if compact else sketch.serialize_updatable())
    union = ds.hll_sketch.deserialize(merge_hll(*images, function="hll_sketch"))
    assert union.lg_config_k <= sizes[1]
    error = 6 * 1.04 / 2 ** (union.lg_config_k / 2)
    assert union.get_estimate() == pytest.approx(len(first | second), rel=error, abs=0.5)


IMAGES = st.sampled_from([HLL_123, HLL_BOTH, HLL_SMALLER[0], THETA_123, THETA_7]).map(bytes.fromhex)


@given(IMAGES, st.binary(max_size=12), st.data())
def test_damage_is_a_typed_error_or_another_sketch(image: bytes, patch: bytes, data: st.DataObject) -> None:
    """The library reads beyond images that contradict themselves: they must not reach it."""
    at = data.draw(st.integers(0, len(image)))
    damaged = image[:at] + patch + image[at + len(patch) :]
    for union, good in ((merge_hll, HLL_34), (merge_theta, THETA_34)):
        try:
            assert union(damaged, bytes.fromhex(good), function="f")
        except Unsupported as error:
            assert "the aggregate function f" in str(error)
