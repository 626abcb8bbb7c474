"""A big frozen map: dicts of small dicts, of which one change copies little.

A domain may have 5,040 nodes, and a state is never changed in place. To copy 5,040 entries for every record would cost
more than the fold; here a change copies the dict of buckets (at most 64) and one bucket (80 entries at that size). The
bucket of a key is its CRC-32, not `hash`: it is the same in every process, so snapshots are equal too.
"""

from collections.abc import Iterator
from typing import TypeVar
from zlib import crc32

V = TypeVar("V")

Buckets = dict[str, dict[str, V]]
"""By bucket: values by key. Holds no empty bucket, so equal contents are equal values."""

_NAMES = tuple(f"{number:02d}" for number in range(64))


def bucket_of(key: str) -> str:
    """Give the bucket that `key` belongs to, `00`..`63`: text, since the canonical encoding sorts text keys only."""
    return _NAMES[crc32(key.encode()) & 63]


def find(buckets: Buckets[V], key: str) -> V | None:
    """Give the value of `key`, or None."""
    if not buckets:
        return None
    bucket = buckets.get(bucket_of(key))
    return None if bucket is None else bucket.get(key)


def put(buckets: Buckets[V], key: str, value: V) -> Buckets[V]:
    """Give a map with `key` set to `value`."""
    place = bucket_of(key)
    bucket = buckets.get(place, {}).copy()
    bucket[key] = value
    return with_bucket(buckets, place, bucket)


def drop(buckets: Buckets[V], key: str) -> Buckets[V]:
    """Give a map without `key`; the same map if it is not there."""
    if not buckets:
        return buckets
    place = bucket_of(key)
    bucket = buckets.get(place)
    if bucket is None or key not in bucket:
        return buckets
    rest = bucket.copy()
    del rest[key]
    return with_bucket(buckets, place, rest)


def with_bucket(buckets: Buckets[V], place: str, bucket: dict[str, V]) -> Buckets[V]:
    """Give a map whose bucket `place` is `bucket`."""
    changed = buckets.copy()
    if bucket:
        changed[place] = bucket
    else:
        del changed[place]
    return changed


def values(buckets: Buckets[V]) -> Iterator[V]:
    """Give all values; callers sort where order matters."""
    for bucket in buckets.values():
        yield from bucket.values()


def items(buckets: Buckets[V]) -> Iterator[tuple[str, V]]:
    """Give all keys with their values; callers sort where order matters."""
    for bucket in buckets.values():
        yield from bucket.items()
