"""Ablations of the watches: what a controller concludes from what it is told, and from what it is not told."""

from collections.abc import Iterator, Mapping
from typing import NoReturn

from controller.observing import observer, views
from controller.observing.catalogue import Known
from controller.observing.normaliser import Keyed, Normaliser
from controller.observing.observations import Seen
from controller.observing.routing import domain_of
from kube.client import KubeError
from kube.clock import Clock
from kube.envelopes import ListMeta, ListPage
from kube.objects import KubeObject
from kube.reflector import Reflector, State, Watching
from simulation.explore import faulty_client
from simulation.explore.ablations.ablation import Ablation, Swap

NEVER_S = 1e9


class TakesPartForWhole(Reflector):
    """Takes a list that ends with an error for a list that ends."""

    _metadata = ListMeta("0")

    async def _fetch(self, limit: int, token: str) -> ListPage[KubeObject] | KubeError:
        page = await super()._fetch(limit, token)
        if not isinstance(page, KubeError):
            self._metadata = ListMeta(page.metadata.version)
        elif token:
            return ListPage(self._metadata, ())
        return page


class GoesOnFromNow(Reflector):
    """Goes on from the newest version when the one that it had is too old."""

    async def _lost(self, error: KubeError, verb: str, *, limit: int) -> State:
        if verb == "list":
            return await super()._lost(error, verb, limit=limit)
        await self._pause(error, verb)
        while isinstance(page := await self._fetch(1, ""), KubeError):
            await self._pause(page, verb)
        self._advance(page.metadata.resource_version)
        return Watching(page.metadata.resource_version)


class LeavesOldKeys(Normaliser):
    """Does not tell a clique that something has left it for another."""

    def _record(self, known: Known, before: Seen) -> list[Keyed]:
        for key in known.recorded.keys() - set(self._keys(known.seen, domain_of(known.seen))):
            del known.recorded[key]
        return super()._record(known, before)


class ProvesNoRows(Normaliser):
    """Concludes nothing of rows from a complete list of pods."""

    def _orphaned_rows(self, version: int) -> Iterator[Keyed]:
        del version
        return iter(())


class ProvesNoDomains(Normaliser):
    """Concludes nothing of labels from a complete list of ComputeDomains."""

    def _orphaned_domains(self, before: set[str], version: int) -> Iterator[Keyed]:
        del before, version
        return iter(())


class ConcludesNothing(Normaliser):
    """Takes nothing for deleted that a complete list does not hold."""

    def _absent(self, plural: str, version: int) -> Iterator[Keyed]:
        del plural, version
        return iter(())


async def _settle_nothing(
    unproven: object, reflectors: Mapping[str, Reflector], clock: Clock, every_s: float
) -> NoReturn:
    del unproven, reflectors
    while True:
        await clock.sleep(every_s)


ABLATIONS = (
    Ablation(
        "complete-relist",
        "a list that breaks off is taken for a complete one",
        "rule 4; A12: live rows are removed",
        (Swap(views, "Reflector", lambda _: TakesPartForWhole),),
    ),
    Ablation(
        "inferred-deletions",
        "what a complete list does not hold is not taken for deleted",
        "rule 4; B16, B17: deletions that nobody saw",
        (Swap(observer, "Normaliser", lambda _: ConcludesNothing),),
    ),
    Ablation(
        "gap-relist",
        "a watch whose version is too old goes on from now",
        "rule 12; B1 to B3: what came in between is lost",
        (Swap(views, "Reflector", lambda _: GoesOnFromNow),),
    ),
    Ablation(
        "silent-watch",
        "a watch that is silent is waited for",
        "B4 to B7: a connection that is half open",
        (Swap(faulty_client, "SLACK_S", lambda _: NEVER_S),),
    ),
    Ablation(
        "leaving-a-clique",
        "a clique is not told of what moved to another",
        "design section 4: a row stays where nobody is",
        (Swap(observer, "Normaliser", lambda _: LeavesOldKeys),),
    ),
    Ablation(
        "orphaned-rows",
        "a row is kept though a complete list of pods holds no daemon for it",
        "rule 4: a pod that nobody saw",
        (Swap(observer, "Normaliser", lambda _: ProvesNoRows),),
    ),
    Ablation(
        "orphaned-labels",
        "a label is kept though a complete list of ComputeDomains does not hold its domain",
        "rule 4: a domain that nobody saw",
        (Swap(observer, "Normaliser", lambda _: ProvesNoDomains),),
    ),
    Ablation(
        "doubts",
        "nothing is listed again because of what only a list can prove",
        "rule 4: what came and went before the first list",
        (Swap(observer, "settle_doubts", lambda _: _settle_nothing),),
    ),
)
