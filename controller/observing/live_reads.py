"""Live reads: what one look at an object, outside of any watch, says in the log's words (rule 8).

They are rare: after a conflict, or where a watch event does not come. Most tell of one object only. A claim template
that bears a name which a domain needs is told to all domains that need the name: of somebody else's no watch tells.
"""

from collections.abc import Callable, Iterable
from typing import NoReturn

import msgspec
from structlog.typing import FilteringBoundLogger

from controller.observing import observations
from controller.observing.normaliser import Keyed, Normaliser
from controller.writing.applier import Observe
from controller.writing.requests import RESOURCES
from eventlog.events import ClaimTemplateSeen
from kube import objects
from kube.client import KubeClient, KubeError, NotFound
from kube.clock import Clock
from kube.names import CLAIM_TEMPLATES, DAEMON_PREFIX, DOMAIN_LABEL
from projections.effects import Target


class LiveReads:
    """Says what live reads tell, given what a normaliser knows."""

    def __init__(self, normaliser: Normaliser, logger: FilteringBoundLogger) -> None:
        """`normaliser` learns what is read."""
        self._normaliser = normaliser
        self._logger = logger

    def events(self, target: Target, raw: bytes | None) -> list[Keyed]:
        """Give the events that follow from what is at `target` now (None: nothing)."""
        if raw is None:
            return self._normalise_absence(target)
        try:
            found = objects.object_decoder(RESOURCES[target.resource]).decode(raw)
        except msgspec.DecodeError as error:
            # Its reflector meets the same object and says what to mend; one object must not end the process.
            name = f"{target.namespace}/{target.name}"
            self._logger.warning("object not understood", resource=target.resource, name=name, cause=str(error))
            return []
        if isinstance(found, objects.ResourceClaimTemplate):
            return self._normalise_template(target, found)
        seen = observations.read(found)
        return self._normaliser.observe(seen) if seen is not None else []

    def _normalise_template(self, target: Target, found: objects.ResourceClaimTemplate) -> list[Keyed]:
        """Tell of a template as what it is to its own domain, and to all whose name it has taken."""
        meta = found.metadata
        events = self._freed(target, meta.uid)
        own = observations.read(found)
        if own is not None:
            events.extend(self._normaliser.observe(own))
        wanting = [(seen.uid, "Workload") for seen in self._normaliser.wanting_template(meta.namespace, meta.name)]
        if meta.name.startswith(DAEMON_PREFIX):
            wanting.append((meta.name.removeprefix(DAEMON_PREFIX), "Daemon"))
        for domain, purpose in wanting:
            if meta.labels.get(DOMAIN_LABEL) != domain:
                place = (meta.resource_version, meta.namespace, meta.name)
                taken = ClaimTemplateSeen(domain, purpose, meta.uid, *place, owned=False)
                events.extend(self._normaliser.observe(taken))
        return events

    def _normalise_absence(self, target: Target) -> list[Keyed]:
        """Take an absence for a deletion only where no watch would tell: for another's claim template (rule 4)."""
        return self._freed(target, "")

    def _freed(self, target: Target, uid: str) -> list[Keyed]:
        """Tell that those are gone that stood at this place in a domain's way, but for the one with this UID."""
        events = []
        for seen in self._normaliser.taken_names():
            if Target(CLAIM_TEMPLATES.plural, seen.namespace, seen.name) == target and seen.uid != uid:
                events.extend(self._normaliser.name_is_free(seen))
        return events


async def look_after_taken_names(
    taken: Callable[[], Iterable[ClaimTemplateSeen]],
    observe: Observe,
    client: KubeClient,
    clock: Clock,
    logger: FilteringBoundLogger,
    every_s: float,
) -> NoReturn:
    """Read the claim templates of others that stand in a domain's way, now and then: no watch tells of them."""
    while True:
        await clock.sleep(every_s)
        for seen in taken():
            target = Target(CLAIM_TEMPLATES.plural, seen.namespace, seen.name)
            try:
                raw = await client.get(CLAIM_TEMPLATES, seen.namespace, seen.name)
            except NotFound:
                await observe(seen.domain, target, None)
            except KubeError as error:
                logger.warning("claim template not read", name=seen.name, cause=str(error))
            else:
                await observe(seen.domain, target, raw)
