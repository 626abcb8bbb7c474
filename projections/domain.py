"""The fold of one ComputeDomain as a whole: the object, what was made for it, and who takes part.

The state is that of one key, the ComputeDomain's UID. It answers what is there; `projections.lifecycle` tells what
should be done about it. Two invariants:

- Of each object the newest sighting counts, by UID and resourceVersion, and a deletion counts against every sighting
  that is not newer. So duplicates, stale records and the order among objects make no difference (rule 3).
- Absence is not deletion (rule 4). Children whose ComputeDomain has not been seen are kept and left alone; only a
  DomainGone makes them orphans.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from eventlog.event import Told
from eventlog.events import (
    AnyEvent,
    CdcGone,
    CdcSeen,
    ClaimTemplateGone,
    ClaimTemplateSeen,
    DaemonPodGone,
    DaemonPodSeen,
    DaemonSetGone,
    DaemonSetSeen,
    DomainGone,
    DomainSeen,
    NodeGone,
    NodeSeen,
)
from projections.buckets import Buckets, drop, find, put
from projections.tombstones import Tombstones, at_rest, bury, exhume, gone_at


class DomainState(msgspec.Struct, frozen=True, tag="domain"):
    """What is known of one ComputeDomain.

    `gone_at` is the resourceVersion as of which the ComputeDomain is gone, None while nothing says so. `cdcs` is by
    clique ID: one object each, but for a leftover in another namespace. `nodes` (those that carry the domain's label)
    is by node name; pods are by UID, since a DaemonSet never uses a pod's name again: `fabric_pods` those with a
    clique, or without word of one yet; `bare_pods` those on nodes without a fabric, which have no CDC. `rows` and
    `unready_rows` count the rows of all CDCs, kept here because a large domain's 5,040 rows are too many to count for
    every record.
    """

    uid: str = ""
    domain: DomainSeen | None = None
    gone_at: int | None = None
    daemon_sets: tuple[DaemonSetSeen, ...] = ()
    templates: tuple[ClaimTemplateSeen, ...] = ()
    cdcs: Buckets[tuple[CdcSeen, ...]] = {}
    nodes: Buckets[NodeSeen] = {}
    fabric_pods: Buckets[DaemonPodSeen] = {}
    bare_pods: Buckets[DaemonPodSeen] = {}
    rows: int = 0
    unready_rows: int = 0
    tombstones: Tombstones = {}


def apply_domain(state: DomainState | None, event: AnyEvent) -> DomainState:
    """Give the state after `event`; an equal state if the event is stale or does not concern a domain as a whole.

    The state holds observations as if our own process had made them: an import gives the state that a controller had.
    """
    before = state or DomainState()
    if isinstance(event, Told) and event.provenance is not None:
        event = replace(event, provenance=None)
    handler = _HANDLERS.get(type(event))
    return before if handler is None else _at_rest(handler(before, event))


def _at_rest(state: DomainState) -> DomainState:
    """Give the state of a domain of which nothing is left without most of its tombstones."""
    if state.gone_at is None or state.domain is not None:
        return state
    if state.daemon_sets or state.templates or state.cdcs or state.nodes or state.fabric_pods or state.bare_pods:
        return state
    return replace(state, tombstones=at_rest(state.tombstones))


class _Sighting(Protocol):
    @property
    def uid(self) -> str: ...
    @property
    def resource_version(self) -> int: ...


class _Named(_Sighting, Protocol):
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def _admit(tombstones: Tombstones, current: _Sighting | None, event: _Sighting) -> tuple[bool, Tombstones]:
    """Tell whether `event` shows the newest object of its name, given the one known so far, and the tombstones then.

    A name belongs to one object at a time: of two UIDs the one with the newer version has it, and the other is gone.
    """
    if gone_at(tombstones, event.uid) >= event.resource_version:
        return False, tombstones
    if current is None:
        return True, exhume(tombstones, event.uid)
    if current.uid == event.uid:
        return event.resource_version > current.resource_version, tombstones
    if event.resource_version > current.resource_version:
        return True, bury(exhume(tombstones, event.uid), current.uid, event.resource_version)
    return False, bury(tombstones, event.uid, current.resource_version)


def _outlived(current: _Sighting | None, event: _Sighting) -> bool:
    """Tell whether the object was seen after the moment as of which `event` says that it is gone.

    Equal versions count as gone: then it does not matter which of the two records comes first.
    """
    return current is not None and current.uid == event.uid and current.resource_version > event.resource_version


def _domain_seen(state: DomainState, event: DomainSeen) -> DomainState:
    known = state.domain.resource_version if state.domain else -1
    if event.resource_version <= max(known, -1 if state.gone_at is None else state.gone_at):
        return state
    return replace(state, uid=event.uid, domain=event, gone_at=None)


def _domain_gone(state: DomainState, event: DomainGone) -> DomainState:
    if state.domain is not None and state.domain.resource_version > event.resource_version:
        return state
    if state.gone_at is not None and state.gone_at >= event.resource_version:
        return state
    return replace(state, uid=event.uid, domain=None, gone_at=event.resource_version)


def _with_object(objects: tuple[N, ...], event: N, tombstones: Tombstones) -> tuple[tuple[N, ...], Tombstones]:
    """Give the objects after a sighting, sorted by place; an object of the same place makes room or stays."""
    if len(objects) == 1 and (objects[0].name, objects[0].namespace) == (event.name, event.namespace):
        admitted, tombstones = _admit(tombstones, objects[0], event)
        return ((event,) if admitted else objects), tombstones
    place = (event.namespace, event.name)
    current = next((known for known in objects if (known.namespace, known.name) == place), None)
    admitted, tombstones = _admit(tombstones, current, event)
    if not admitted:
        return objects, tombstones
    others = [known for known in objects if known is not current]
    return tuple(sorted((*others, event), key=lambda known: (known.namespace, known.name))), tombstones


def _without_object(
    objects: tuple[N, ...], event: _Sighting, tombstones: Tombstones
) -> tuple[tuple[N, ...], Tombstones]:
    """Give the objects after a deletion."""
    current = next((known for known in objects if known.uid == event.uid), None)
    if _outlived(current, event):
        return objects, tombstones
    rest = objects if current is None else tuple(known for known in objects if known is not current)
    return rest, bury(tombstones, event.uid, event.resource_version)


def _daemon_set_seen(state: DomainState, event: DaemonSetSeen) -> DomainState:
    objects, tombstones = _with_object(state.daemon_sets, event, state.tombstones)
    return replace(state, uid=event.domain, daemon_sets=objects, tombstones=tombstones)


def _daemon_set_gone(state: DomainState, event: DaemonSetGone) -> DomainState:
    objects, tombstones = _without_object(state.daemon_sets, event, state.tombstones)
    return replace(state, uid=event.domain, daemon_sets=objects, tombstones=tombstones)


def _template_seen(state: DomainState, event: ClaimTemplateSeen) -> DomainState:
    objects, tombstones = _with_object(state.templates, event, state.tombstones)
    return replace(state, uid=event.domain, templates=objects, tombstones=tombstones)


def _template_gone(state: DomainState, event: ClaimTemplateGone) -> DomainState:
    objects, tombstones = _without_object(state.templates, event, state.tombstones)
    return replace(state, uid=event.domain, templates=objects, tombstones=tombstones)


def _cdc_seen(state: DomainState, event: CdcSeen) -> DomainState:
    objects, tombstones = _with_object(find(state.cdcs, event.clique) or (), event, state.tombstones)
    return _with_cdcs(state, event, objects, tombstones)


def _cdc_gone(state: DomainState, event: CdcGone) -> DomainState:
    objects, tombstones = _without_object(find(state.cdcs, event.clique) or (), event, state.tombstones)
    return _with_cdcs(state, event, objects, tombstones)


def _with_cdcs(
    state: DomainState, event: CdcSeen | CdcGone, objects: tuple[CdcSeen, ...], tombstones: Tombstones
) -> DomainState:
    before = find(state.cdcs, event.clique) or ()
    if objects is before:
        return replace(state, uid=event.domain, tombstones=tombstones)
    cdcs = put(state.cdcs, event.clique, objects) if objects else drop(state.cdcs, event.clique)
    rows, unready = _count(objects)
    rows_before, unready_before = _count(before)
    return replace(
        state,
        uid=event.domain,
        cdcs=cdcs,
        rows=state.rows + rows - rows_before,
        unready_rows=state.unready_rows + unready - unready_before,
        tombstones=tombstones,
    )


def _count(cdcs: tuple[CdcSeen, ...]) -> tuple[int, int]:
    """Give the number of rows, and of those that are not Ready."""
    rows = unready = 0
    for cdc in cdcs:
        rows += len(cdc.rows)
        unready += len([row for row in cdc.rows if row.status != "Ready"])
    return rows, unready


def _relocates(current: NodeSeen | DaemonPodSeen | None, event: NodeSeen | DaemonPodSeen) -> bool:
    """Tell whether `event` is the known sighting again with another clique, which was learnt from another object."""
    if current is None or (current.uid, current.resource_version) != (event.uid, event.resource_version):
        return False
    return bool(event.clique) and event.clique != current.clique


def _node_seen(state: DomainState, event: NodeSeen) -> DomainState:
    current = find(state.nodes, event.name)
    admitted, tombstones = _admit(state.tombstones, current, event)
    nodes = put(state.nodes, event.name, event) if admitted or _relocates(current, event) else state.nodes
    return replace(state, uid=event.domain, nodes=nodes, tombstones=tombstones)


def _node_gone(state: DomainState, event: NodeGone) -> DomainState:
    current = find(state.nodes, event.name)
    if _outlived(current, event):
        return state
    same = current is not None and current.uid == event.uid
    nodes = drop(state.nodes, event.name) if same else state.nodes
    return replace(state, nodes=nodes, tombstones=bury(state.tombstones, event.uid, event.resource_version))


def _pod_seen(state: DomainState, event: DaemonPodSeen) -> DomainState:
    current = _pod(state, event.uid)
    admitted, tombstones = _admit(state.tombstones, current, event)
    if not admitted and not _relocates(current, event):
        return state
    if event.clique or event.undecided:
        fabric, bare = put(state.fabric_pods, event.uid, event), drop(state.bare_pods, event.uid)
    else:
        fabric, bare = drop(state.fabric_pods, event.uid), put(state.bare_pods, event.uid, event)
    return replace(state, uid=event.domain, fabric_pods=fabric, bare_pods=bare, tombstones=tombstones)


def _pod_gone(state: DomainState, event: DaemonPodGone) -> DomainState:
    if _outlived(_pod(state, event.uid), event):
        return state
    return _without_pod(replace(state, uid=event.domain), event.uid, event.resource_version)


def _without_pod(state: DomainState, uid: str, version: int) -> DomainState:
    return replace(
        state,
        fabric_pods=drop(state.fabric_pods, uid),
        bare_pods=drop(state.bare_pods, uid),
        tombstones=bury(state.tombstones, uid, version),
    )


def _pod(state: DomainState, uid: str) -> DaemonPodSeen | None:
    return find(state.fabric_pods, uid) or find(state.bare_pods, uid)


_HANDLERS: Mapping[type, Callable[[DomainState, Any], DomainState]] = MappingProxyType(
    {
        DomainSeen: _domain_seen,
        DomainGone: _domain_gone,
        DaemonSetSeen: _daemon_set_seen,
        DaemonSetGone: _daemon_set_gone,
        ClaimTemplateSeen: _template_seen,
        ClaimTemplateGone: _template_gone,
        CdcSeen: _cdc_seen,
        CdcGone: _cdc_gone,
        NodeSeen: _node_seen,
        NodeGone: _node_gone,
        DaemonPodSeen: _pod_seen,
        DaemonPodGone: _pod_gone,
    }
)
