"""Buckets: what documents share one, and how they are grouped."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from nlpdata import keys
from nlpdata.pretraining.buckets import SLOT_BITS, bucket_key, group_buckets, plan_buckets, slot_shift


@given(
    st.lists(st.tuples(st.integers(0, (1 << SLOT_BITS) - 1), st.integers(0, 3), st.integers(1, 150)), max_size=60),
    st.booleans(),
)
def test_plan_buckets(slots, by_file):
    documents = {}
    for slot, file, count in slots:
        documents[(file << SLOT_BITS | slot) if by_file else slot] = count
    documents = dict(sorted(documents.items()))
    shift = slot_shift(by_file)
    buckets = plan_buckets(documents, by_file)
    assert sum(count for *_, count in buckets) == sum(documents.values())
    for (_, high, _), (low, _, _) in zip(buckets, buckets[1:], strict=False):  # noqa: RUF007
        assert high <= low
    by_files = Counter()
    for slot, count in documents.items():
        by_files[slot >> SLOT_BITS] += count
    for low, high, count in buckets:
        inside = [slot for slot in documents if low <= slot << shift < high]
        assert count == sum(documents[slot] for slot in inside)
        assert all((slot + 1) << shift <= high for slot in inside)
        file = inside[0] >> SLOT_BITS
        if by_file:
            assert {slot >> SLOT_BITS for slot in inside} == {file}
        assert count >= min(64, by_files[file] if by_file else sum(documents.values()))
        # No bucket is larger than needed, but for the last of a file, which takes a short rest.
        if sum(documents[slot] for slot in inside[:-1]) >= 64:
            later = [slot for slot in documents if slot > inside[-1] and (not by_file or slot >> SLOT_BITS == file)]
            assert not later


def test_plan_buckets_by_hand():
    shift = slot_shift(False)
    assert plan_buckets({}, False) == []
    assert plan_buckets({7: 3}, False) == [(7 << shift, 8 << shift, 3)]
    expected = [(0, 3 << shift, 64), (5 << shift, 10 << shift, 100)]
    assert plan_buckets({0: 60, 2: 4, 5: 70, 9: 30}, False) == expected
    assert plan_buckets({4095: 64}, False) == [(4095 << shift, 1 << 64, 64)]
    by_file = slot_shift(True)
    expected = [(4095 << by_file, 4096 << by_file, 10), (4096 << by_file, 4097 << by_file, 10)]
    assert plan_buckets({4095: 10, 4096: 10}, True) == expected


@given(st.lists(st.integers(2, 200), max_size=60), st.integers(1, 80))
def test_group_buckets(sizes, count):
    buckets = [(i, i + 1, size) for i, size in enumerate(sizes)]
    groups = group_buckets(buckets, count)
    assert [bucket for group in groups for bucket in group] == buckets
    assert len(groups) <= count
    for group in groups:
        assert sum(size for _, _, size in group[:-1]) <= sum(sizes) / count


def test_bucket_key():
    hashed = bucket_key(99, None)
    assert hashed == keys.draw_int(99, keys.Purpose.BUCKET)
    assert bucket_key(99, 5) >> 44 == 5
    assert bucket_key(99, 5) >> slot_shift(True) == 5 << SLOT_BITS | hashed >> slot_shift(False)
