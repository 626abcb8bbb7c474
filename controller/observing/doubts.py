"""Doubts: what no watch will ever tell, because the object went before its kind's first list was complete.

A node may carry the label of a domain, or a CDC a row of a daemon, that came and went while this controller was away or
its lists were late. Nothing is deleted on suspicion (rule 4): the kind is listed again, and a complete list proves what
is over. Invariant: a doubt is one that was there a whole period ago already, so that the usual case, in which the
object is merely later than what names it, costs no list.
"""

from collections.abc import Callable, Mapping
from typing import NoReturn

from kube.clock import Clock
from kube.reflector import Reflector

CAUSE = "something names objects of this kind that are not known"


async def settle_doubts(
    unproven: Callable[[], Mapping[str, set[str]]], reflectors: Mapping[str, Reflector], clock: Clock, every_s: float
) -> NoReturn:
    """Look every `every_s` seconds; `unproven` gives what is in doubt by kind, `reflectors` are by kind as well."""
    before: Mapping[str, set[str]] = {}
    while True:
        await clock.sleep(every_s)
        now = unproven()
        for plural, doubts in now.items():
            if doubts & before.get(plural, set()):
                reflectors[plural].doubt(CAUSE)
        before = now
