"""Tombstones: which objects are gone, so that a late sighting does not bring them back.

Records come at least once, and two controllers may both append what they see, one of them later (rule 3). A tombstone
holds the object's UID and the resourceVersion as of which it is gone; a sighting that is not newer is stale. It is not
for ever: a node that lost its label may get it again, with a newer version. Bounded: of each of 64 buckets the
tombstones with the highest versions stay. What is forgotten can at worst be brought back by a record that is very late,
and the next complete relist ends that.
"""

from projections.buckets import Buckets, bucket_of, drop, find, with_bucket

Tombstones = Buckets[int]
"""By UID: the resourceVersion as of which the object is gone."""

LIMIT = 256
"""Tombstones per bucket: 16,384 in all, more than the 10,080 nodes and pods that a domain of 5,040 nodes leaves."""

LIMIT_AT_REST = 8
"""Tombstones per bucket that a domain keeps which is itself gone, with all that was its: a controller sees thousands of
domains in its life, and remembers each."""


def gone_at(tombstones: Tombstones, uid: str) -> int:
    """Give the resourceVersion as of which the object is gone, -1 if nothing is known of that."""
    version = find(tombstones, uid)
    return -1 if version is None else version


def bury(tombstones: Tombstones, uid: str, version: int) -> Tombstones:
    """Give tombstones that say that the object is gone as of `version`; the highest version stated stays."""
    place = bucket_of(uid)
    bucket = tombstones.get(place, {})
    if bucket.get(uid, -1) >= version:
        return tombstones
    bucket = bucket.copy()
    bucket[uid] = version
    if len(bucket) > LIMIT:
        del bucket[min(bucket, key=lambda known: (bucket[known], known))]
    return with_bucket(tombstones, place, bucket)


def exhume(tombstones: Tombstones, uid: str) -> Tombstones:
    """Give tombstones without this UID's: the object was seen alive after all, with a newer version."""
    return drop(tombstones, uid)


def at_rest(tombstones: Tombstones) -> Tombstones:
    """Give the newest tombstones of each bucket, as many as a domain keeps that is gone."""
    return {place: _newest(bucket) for place, bucket in tombstones.items()}


def _newest(bucket: dict[str, int]) -> dict[str, int]:
    if len(bucket) <= LIMIT_AT_REST:
        return bucket
    kept = sorted(bucket, key=lambda uid: (bucket[uid], uid))[-LIMIT_AT_REST:]
    return {uid: bucket[uid] for uid in kept}
