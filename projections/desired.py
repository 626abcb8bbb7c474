"""Desired and diff: from a clique's state to the writes of its CDCs.

Problem: other writers may work on the same object. Invariant: a write says what every row should be as of one observed
resourceVersion, takes out only rows that are known to be over, and keeps the rows that it knows nothing against.
"""

from eventlog.events import Row
from projections.clique import CliqueState, Membership, is_member, member_names, pods_by_node, row_is_dead
from projections.effects import OwnerRef, Target, WriteCdc
from projections.readiness import READY, row_for
from projections.settings import Settings

CDCS = "computedomaincliques"


def desired_rows(state: CliqueState, domain: str) -> dict[str, Row]:
    """Give the rows that the domain's CDC should have, by node."""
    membership = state.domains[domain]
    pods = pods_by_node(membership)
    rows: dict[str, Row] = {}
    for node, holding in membership.holdings.items():
        if holding.active:
            row = row_for(membership, node, holding.index, pods.get(node))
            if row is not None:
                rows[node] = row
    if membership.cdc is not None:
        for node, observed in membership.cdc.rows.items():
            held = membership.holdings.get(node)
            if (held is None or not held.active) and not _is_over(state, domain, observed):
                rows[node] = observed
    return rows


def _is_over(state: CliqueState, domain: str, row: Row) -> bool:
    """Say whether a row without a holding is to go: its node waits, or is no member any more."""
    membership = state.domains[domain]
    if row.node in membership.waiting:
        return True
    return (row_is_dead(membership, row) or not row.ip) and not is_member(state, domain, row.node)


def waiting_line(membership: Membership) -> tuple[str, ...]:
    """Give the nodes that wait for a slot, first in line first."""
    return tuple(sorted(membership.waiting, key=lambda node: (membership.waiting[node], node)))


def clique_effects(state: CliqueState, clique: str, settings: Settings) -> tuple[WriteCdc, ...]:
    """Give the writes of the clique's CDCs that are due; none where the CDC is as it should be."""
    effects = []
    for domain in sorted(state.domains):
        effect = _write(state, domain, clique, settings)
        if effect is not None:
            effects.append(effect)
    return tuple(effects)


def _write(state: CliqueState, domain: str, clique: str, settings: Settings) -> WriteCdc | None:
    membership = state.domains[domain]
    cdc = membership.cdc
    if not membership.known or membership.terminating or (cdc is not None and cdc.terminating):
        return None
    rows = desired_rows(state, domain)
    waiting = waiting_line(membership)
    observed = cdc.rows if cdc is not None else {}
    told = cdc.waiting if cdc is not None else ()
    if rows == observed and waiting == told:
        return None
    return WriteCdc(
        Target(CDCS, cdc.namespace if cdc is not None else settings.namespace, f"{domain}.{clique}"),
        domain,
        cdc.resource_version if cdc is not None else 0,
        clique,
        cdc.uid if cdc is not None else "",
        tuple(sorted(rows.values(), key=_by_index)),
        waiting,
        _owner(membership, settings),
        complete=_is_complete(state, domain, rows, observed),
        early=waiting == told and _is_early(rows, observed),
    )


def _by_index(row: Row) -> tuple[int, str]:
    return (row.index if row.index is not None else -1, row.node)


def _owner(membership: Membership, settings: Settings) -> OwnerRef | None:
    """Give the DaemonSet as the owner of a new CDC: only an object of the same namespace can be ."""
    daemon_set = membership.daemon_set
    if daemon_set is None or daemon_set.namespace != settings.namespace:
        return None
    return OwnerRef("DaemonSet", daemon_set.name, daemon_set.uid)


def _is_early(rows: dict[str, Row], observed: dict[str, Row]) -> bool:
    """Say whether the rows differ from those observed only by new ones without an address."""
    news = [row for node, row in rows.items() if row != observed.get(node)]
    return observed.keys() <= rows.keys() and not any(row.ip or row.node in observed for row in news)


def _is_complete(state: CliqueState, domain: str, rows: dict[str, Row], observed: dict[str, Row]) -> bool:
    """Say whether the write brings the last of what a gang waits for, so that it should not wait.

    That is the last Ready row of the members that can have one; and, before, the last address, without which that
    daemon does not begin to get ready.
    """
    if not all([row.ip for row in rows.values()]):  # noqa: C419 - faster
        return False  # the usual case while a clique fills, so it is asked before what must be searched for
    expected = member_names(state, domain) - state.domains[domain].waiting.keys()
    if not expected or not expected <= rows.keys():
        return False
    if all(rows[node].status == READY for node in expected):
        return True
    return any(node not in observed or observed[node].ip != rows[node].ip for node in expected)
