"""A big frozen map: dicts of small dicts, of which one change copies little.

A domain may have 5,040 nodes, and a state is never changed in place. To copy 5,040 entries for every record would cost
more than the fold; here a change copies the dict of buckets (at most 256) and one bucket (20 entries at that size).
The bucket of a key is its CRC-32, not `hash`: it is the same in every process, so snapshots are equal too.
"""

from collections.abc import Iterator
from typing import TypeVar
from zlib import crc32

V = TypeVar("V")

Buckets = dict[int, dict[str, V]]
"""By bucket number: values by key. Holds no empty bucket, so equal contents are equal values."""


def bucket_of(key: str) -> int:
    """Give the number of the bucket that `key` belongs to, 0..255."""
    return crc32(key.encode()) & 0xFF


def find(buckets: Buckets[V], key: str) -> V | None:
    """Give the value of `key`, or None."""
    bucket = buckets.get(bucket_of(key))
    return None if bucket is None else bucket.get(key)


def put(buckets: Buckets[V], key: str, value: V) -> Buckets[V]:
    """Give a map with `key` set to `value`."""
    number = bucket_of(key)
    return {**buckets, number: {**buckets.get(number, {}), key: value}}


def drop(buckets: Buckets[V], key: str) -> Buckets[V]:
    """Give a map without `key`; the same map if it is not there."""
    number = bucket_of(key)
    bucket = buckets.get(number, {})
    if key not in bucket:
        return buckets
    rest = {**bucket}
    del rest[key]
    if rest:
        return {**buckets, number: rest}
    others = {**buckets}
    del others[number]
    return others


def values(buckets: Buckets[V]) -> Iterator[V]:
    """Give all values; callers sort where order matters."""
    for bucket in buckets.values():
        yield from bucket.values()
