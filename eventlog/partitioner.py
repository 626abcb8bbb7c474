"""Which partition a key belongs to: Kafka's default, on every engine.

The Java client hashes a key with murmur2 (seed 0x9747b28c), clears the sign bit and takes the remainder by the number
of partitions. Using the same everywhere lets a log move between engines with its partitions intact.
"""

import struct
from functools import lru_cache

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Give the 32-bit murmur2 hash of `data` that Kafka's clients use, unsigned."""
    h = (_SEED ^ len(data)) & _MASK
    words = len(data) // 4
    for word in struct.unpack_from(f"<{words}I", data):
        k = word * _MULTIPLIER & _MASK
        k = (k ^ k >> 24) * _MULTIPLIER & _MASK
        h = h * _MULTIPLIER & _MASK ^ k
    tail = data[4 * words :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    h = (h ^ h >> 13) * _MULTIPLIER & _MASK
    return h ^ h >> 15


@lru_cache(maxsize=1 << 14)
def partition_for(key: str, partitions: int) -> int:
    """Give the partition of `key` in a log of `partitions` partitions.

    Remembered for the keys in use: few keys come again and again, and hashing one takes longer than storing a record.
    """
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions
