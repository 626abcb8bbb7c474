"""The end of a ComputeDomain: take away what was made for it, whatever of it is there.

The same steps serve a ComputeDomain that is being deleted and the leftovers of one that is gone. An object that bears
a name of ours but is somebody else's is never touched.
"""

from collections.abc import Iterator
from operator import itemgetter

from eventlog.events import CdcSeen, ClaimTemplateSeen, DaemonSetSeen
from projections.buckets import items, values
from projections.domain import DomainState
from projections.effects import AnyEffect, DeleteObject, Target, UnlabelNode
from projections.owned import release
from projections.settings import Settings


def cleanup(state: DomainState, settings: Settings) -> Iterator[AnyEffect]:
    """Give the writes that take away what there is.

    CDCs wait for the last daemon pod: while one lives, its row tells the other daemons where it is. Nothing else waits.
    (The API server's garbage collector does not either: it takes a CDC that the DaemonSet owns once that is gone.)
    """
    for template in state.templates:
        if template.owned:
            yield from _take_away("resourceclaimtemplates", template, state.uid, settings)
    for daemon_set in state.daemon_sets:
        yield from _take_away("daemonsets", daemon_set, state.uid, settings)
    for node in sorted(values(state.nodes), key=lambda node: node.name):
        yield UnlabelNode(Target("nodes", "", node.name), state.uid, node.resource_version, node.uid)
    if not state.fabric_pods and not state.bare_pods:
        for _, cdcs in sorted(items(state.cdcs), key=itemgetter(0)):
            for cdc in cdcs:
                if not cdc.terminating:
                    yield _delete("computedomaincliques", cdc, state.uid)


def everything_is_gone(state: DomainState) -> bool:
    """Tell whether nothing of the domain is left: objects, node labels, daemon pods."""
    children = state.daemon_sets or state.cdcs or any(template.owned for template in state.templates)
    return not (children or state.nodes or state.fabric_pods or state.bare_pods)


def _take_away(
    resource: str, child: DaemonSetSeen | ClaimTemplateSeen, domain: str, settings: Settings
) -> Iterator[AnyEffect]:
    if child.terminating:
        yield from release(resource, child, domain, settings)
    else:
        yield _delete(resource, child, domain)


def _delete(resource: str, child: DaemonSetSeen | ClaimTemplateSeen | CdcSeen, domain: str) -> DeleteObject:
    return DeleteObject(Target(resource, child.namespace, child.name), domain, child.resource_version, child.uid)
