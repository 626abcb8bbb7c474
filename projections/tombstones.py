"""Tombstones: which objects are gone, so that a late sighting does not bring them back.

Records come at least once, and two controllers may both append what they see, one of them later (rule 3). A tombstone
holds the object's UID and the resourceVersion as of which it is gone; a sighting that is not newer is stale. It is not
for ever: a node that lost its label may get it again, with a newer version. Bounded: of each of 256 buckets the
tombstones with the highest versions stay. What is forgotten can at worst be brought back by a record that is very late,
and the next complete relist ends that.
"""

from projections.buckets import bucket_of

Tombstone = tuple[str, int]
"""UID and resourceVersion."""
Tombstones = dict[int, tuple[Tombstone, ...]]
"""By bucket number: tombstones in the order of their versions, oldest first."""

LIMIT = 32
"""Tombstones per bucket: 8,192 in all, more than a domain of 5,040 nodes leaves when its pods go."""


def gone_at(tombstones: Tombstones, uid: str) -> int:
    """Give the resourceVersion as of which the object is gone, -1 if nothing is known of that."""
    for known, version in tombstones.get(bucket_of(uid), ()):
        if known == uid:
            return version
    return -1


def bury(tombstones: Tombstones, uid: str, version: int) -> Tombstones:
    """Give tombstones that say that the object is gone as of `version`; the highest version stated stays."""
    number = bucket_of(uid)
    if gone_at(tombstones, uid) >= version:
        return tombstones
    others = (stone for stone in tombstones.get(number, ()) if stone[0] != uid)
    ordered = sorted((*others, (uid, version)), key=lambda stone: (stone[1], stone[0]))
    return {**tombstones, number: tuple(ordered[-LIMIT:])}


def exhume(tombstones: Tombstones, uid: str) -> Tombstones:
    """Give tombstones without this UID's: the object was seen alive after all, with a newer version."""
    number = bucket_of(uid)
    if gone_at(tombstones, uid) < 0:
        return tombstones
    rest = tuple(stone for stone in tombstones[number] if stone[0] != uid)
    if rest:
        return {**tombstones, number: rest}
    return {known: stones for known, stones in tombstones.items() if known != number}
