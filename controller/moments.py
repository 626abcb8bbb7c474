"""Times of a history as people write and read them: UTC, to the millisecond, or relative to its beginning."""

import re
from datetime import UTC, datetime, timedelta

RELATIVE = re.compile(r"\+([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)?")
_UNITS_MS = (("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000))
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999, the last one that has a name."""


_KUBERNETES_MS = 1_388_534_400_000
"""The beginning of 2014, the year in which Kubernetes came to be."""
_DAY_MS = 86_400_000


class NotATime(ValueError):
    """Text that is no time, or none that can be asked about; the message says what is one."""


def parse(text: str, begin_ms: int) -> int:
    """Give Unix milliseconds for RFC 3339 (no offset: UTC), or `+SECONDS`, `+5m` and the like after the beginning.

    Raises NotATime.
    """
    if found := RELATIVE.fullmatch(text):
        return begin_ms + round(float(found[1]) * dict(_UNITS_MS)[found[2] or "s"])
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise NotATime(f"{text!r} is no time: write 2026-09-11T10:00:00Z, or +90s after the beginning") from None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def within(text: str, time_ms: int, begin_ms: int) -> None:
    """Refuse the time that `text` states if a history begins later: of what was before, it says nothing.

    Raises NotATime.
    """
    if time_ms < begin_ms:
        raise NotATime(f"{text!r} is before the log begins, at {rfc3339(begin_ms)}: it does not tell what was then")


def rfc3339(time_ms: int) -> str:
    """Give the time in UTC to the millisecond, as in 2026-09-11T10:00:00.123Z."""
    time = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=min(max(time_ms, 0), _LAST_MS))
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def doubt(time_ms: int, now_ms: int) -> str:
    """Say why a time cannot be that of an event in a cluster, empty if it can: a clock was wrong, or a line is."""
    if time_ms < _KUBERNETES_MS:
        return "before 2014, when there was no Kubernetes"
    return "more than a day after now" if time_ms > now_ms + _DAY_MS else ""


def clock(time_ms: int) -> str:
    """Give the time of day in UTC to the millisecond."""
    return rfc3339(time_ms)[11:-1]


def relative(time_ms: int, begin_ms: int) -> str:
    """Give the time after the beginning, in seconds."""
    return f"{(time_ms - begin_ms) / 1000:+.3f}s"
