"""How often something may happen."""

from __future__ import annotations

from numalign.core.values.token_bucket import TokenBucket


def taken(bucket, times):
    passed = 0
    for now in times:
        after = bucket.taken(now)
        if after is not None:
            passed += 1
            bucket = after
    return passed


def test_a_full_bucket_lets_its_burst_pass_at_once_and_then_its_rate():
    bucket = TokenBucket.full(per_second=100, burst=10, now=0)
    assert taken(bucket, [0] * 50) == 10
    assert taken(bucket, [0] * 50 + [0.1 + i / 1_000_000 for i in range(50)]) == 20


def test_tokens_never_exceed_the_burst_and_a_clock_that_goes_back_makes_none():
    bucket = TokenBucket.full(per_second=100, burst=10, now=0)
    assert taken(bucket, [1_000] * 50) == 10
    assert taken(bucket, [5] * 10 + [0] * 10) == 10


def test_the_wait_for_the_next_token_is_told():
    bucket = TokenBucket.full(per_second=4, burst=1, now=0)
    assert bucket.seconds_until_next(0) == 0
    empty = bucket.taken(0)
    assert empty is not None
    assert empty.seconds_until_next(0) == 0.25
    assert empty.taken(0.25) is not None
