"""Which partition a key belongs to: Kafka's default, on every engine.

The Java client hashes a key with murmur2 (seed 0x9747b28c), clears the sign bit and takes the remainder by the number
of partitions. Using the same everywhere lets a log move between engines with its partitions intact.
"""

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Give the 32-bit murmur2 hash of `data` that Kafka's clients use, unsigned."""
    h = (_SEED ^ len(data)) & _MASK
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little")
        k = (k * _MULTIPLIER) & _MASK
        k ^= k >> 24
        k = (k * _MULTIPLIER) & _MASK
        h = ((h * _MULTIPLIER) & _MASK) ^ k
    tail = data[whole:]
    if tail:
        h ^= int.from_bytes(tail, "little")
        h = (h * _MULTIPLIER) & _MASK
    h ^= h >> 13
    h = (h * _MULTIPLIER) & _MASK
    return h ^ (h >> 15)


def partition_for(key: str, partitions: int) -> int:
    """Give the partition of `key` in a log of `partitions` partitions."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions
