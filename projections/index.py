"""Indices: which proposals are admissible, and what to propose.

Rule 1: the log arbitrates. Whoever proposes may have folded less of the log than there is, or be one of two that both
believe to be in charge; the fold takes a decision only if it is admissible at its own place in the log, and otherwise
counts it. Rule 5: an index is unique per domain and clique, in range, never changed while its daemon lives, remembered
for its node afterwards.

`objection` says why a decision is not admissible; `apply_decision` takes one in; `propose` gives those that are due.
All three are pure, and `propose` never gives a decision that `objection` would refuse in the same state. A capacity is
whatever the log says, so none of them takes steps in proportion to it.
"""

from msgspec.structs import replace

from eventlog.events import Decision, IndexAdopted, IndexAssigned, IndexRefused, IndexReleased, Row
from projections.clique import (
    CliqueState,
    Holding,
    Membership,
    chooses_itself,
    holders,
    is_member,
    member_names,
    members,
    row_is_dead,
)
from projections.settings import Settings


def holder_of(membership: Membership, index: int) -> str | None:
    """Give the node that actively holds the index."""
    for node, holding in membership.holdings.items():
        if holding.active and holding.index == index:
            return node
    return None


def adoptable(state: CliqueState, domain: str, row: Row, capacity: int) -> bool:
    """Say whether a row that another writer placed may stand with its index.

    It may unless the index is out of range or shown to a daemon as somebody else's, or the daemon of the row's address
    was shown another one, or the node is no member, or the row is what is left of a daemon that is gone. A row of a new
    address is of a daemon in a new life, whatever its node held before (its pod's events may be later than the CDC's).
    """
    membership = state.domains[domain]
    if row.index is None or not 0 <= row.index < capacity:
        return False
    own = membership.holdings.get(row.node)
    if own is not None and own.active:
        if own.index == row.index or own.shown_to == row.ip:
            return False  # the usual case, so it is asked before what must be searched for
        if own.shown and not chooses_itself(membership, row.node):
            return False
    if row_is_dead(membership, row):
        return False
    holder = holder_of(membership, row.index)
    # Only a daemon that writes its row itself can have chosen what was given to another and shown to nobody yet; a row
    # of ours for a reader is from before that, and its address may be in use again.
    chosen = bool(row.ip) and chooses_itself(membership, row.node)
    if holder is not None and holder != row.node and (membership.holdings[holder].shown or not chosen):
        return False
    # A row without an address is ours, of a life of which the log knows nothing; else the log knows better.
    return is_member(state, domain, row.node) and (bool(row.ip) or own is None)


def objection(state: CliqueState, decision: Decision) -> str:
    """Give the reason why the decision is not admissible in this state, in a few words; empty if it is."""
    membership = state.domains.get(decision.domain)
    if membership is None or not membership.known:
        return "the domain is not known"
    match decision:
        case IndexAssigned():
            return _objection_to_assignment(state, membership, decision)
        case IndexAdopted():
            return _objection_to_adoption(state, membership, decision)
        case IndexReleased():
            return _objection_to_release(state, membership, decision)
        case IndexRefused():
            return _objection_to_refusal(state, membership, decision)


def _objection_to_assignment(state: CliqueState, membership: Membership, decision: IndexAssigned) -> str:
    if membership.terminating:
        return "the domain is terminating"
    if not 0 <= decision.index < decision.capacity:
        return "the index is out of range"
    own = membership.holdings.get(decision.node)
    if own is not None and own.active:
        return "the node holds an index"
    if not is_member(state, decision.domain, decision.node):
        return "the node is not a member"
    taken = _taken(state, decision.domain, decision.capacity)
    if decision.index in taken:
        return "the index is held, or in a row that another writer placed"
    if own is not None and own.index < decision.capacity and own.index not in taken | {decision.index}:
        return "another index is remembered for the node"
    return ""


def _objection_to_adoption(state: CliqueState, membership: Membership, decision: IndexAdopted) -> str:
    if membership.terminating:
        return "the domain is terminating"
    row = membership.cdc.rows.get(decision.node) if membership.cdc is not None else None
    if row is None or row.index != decision.index:
        return "there is no such row"
    if not adoptable(state, decision.domain, row, decision.capacity):
        return "the row's index cannot stand"
    return ""


def _objection_to_release(state: CliqueState, membership: Membership, decision: IndexReleased) -> str:
    own = membership.holdings.get(decision.node)
    if own is None or not own.active or own.index != decision.index:
        return "the node does not hold this index"
    if is_member(state, decision.domain, decision.node):
        return "the node is a member"
    return ""


def _objection_to_refusal(state: CliqueState, membership: Membership, decision: IndexRefused) -> str:
    own = membership.holdings.get(decision.node)
    if own is not None and own.active:
        return "the node holds an index"
    if decision.node in membership.waiting:
        return "the node waits already"
    if not is_member(state, decision.domain, decision.node):
        return "the node is not a member"
    taken = _taken(state, decision.domain, decision.capacity)
    if sum(0 <= index < decision.capacity for index in taken) < decision.capacity:
        return "an index is free"
    return ""


def _taken(state: CliqueState, domain: str, capacity: int) -> set[int]:
    """Give the indices that are held, and those of other writers' rows, which are to be adopted first."""
    membership = state.domains[domain]
    taken = {held.index for held in membership.holdings.values() if held.active}
    if membership.cdc is not None:
        for row in membership.cdc.rows.values():
            if row.index is not None and row.index not in taken and adoptable(state, domain, row, capacity):
                taken.add(row.index)
    return taken


def apply_decision(state: CliqueState, decision: Decision) -> CliqueState:
    """Take in a decision: what it says if it is admissible, else one more in the count of those that are not."""
    if objection(state, decision):
        return replace(state, inadmissible=state.inadmissible + 1)
    membership = state.domains[decision.domain]
    match decision:
        case IndexAssigned() | IndexAdopted():
            changed = _given(state, membership, decision)
        case IndexReleased():
            changed = _released(state, membership, decision)
        case _:
            changed = replace(membership, waiting={**membership.waiting, decision.node: state.sequence})
    return replace(state, domains={**state.domains, decision.domain: changed})


def _given(state: CliqueState, membership: Membership, decision: IndexAssigned | IndexAdopted) -> Membership:
    """Give the index to the node; whoever else remembers it, or holds it unshown, loses it."""
    adopted = isinstance(decision, IndexAdopted)
    row = membership.cdc.rows.get(decision.node) if membership.cdc is not None else None
    shown = row is not None and row.index == decision.index and not row_is_dead(membership, row)
    shown_to = row.ip if row is not None and (adopted or shown) else None
    holding = Holding(decision.index, active=True, since=state.sequence, shown_to=shown_to)
    others = {
        node: held
        for node, held in membership.holdings.items()
        if node != decision.node and held.index != decision.index
    }
    waiting = {node: since for node, since in membership.waiting.items() if node != decision.node}
    return replace(membership, holdings={**others, decision.node: holding}, waiting=waiting)


def _released(state: CliqueState, membership: Membership, decision: IndexReleased) -> Membership:
    holding = Holding(decision.index, active=False, since=state.sequence)
    return replace(membership, holdings={**membership.holdings, decision.node: holding})


class _Draft:
    """Decisions in the making, and the state as if they were taken in already."""

    def __init__(self, state: CliqueState) -> None:
        self.state = state
        self.decisions: list[Decision] = []

    def add(self, decision: Decision) -> None:
        self.state = apply_decision(self.state, decision)
        self.decisions.append(decision)


def propose(state: CliqueState, settings: Settings) -> list[Decision]:
    """Give the decisions that are due, in the order in which they are to be appended.

    Releases first, then rows of other writers, then those who wait in line, then newcomers.
    """
    draft = _Draft(state)
    for domain in sorted(state.domains):
        membership = state.domains[domain]
        if not membership.known:
            continue
        there = member_names(state, domain)  # No decision changes who is a member.
        _propose_releases(draft, domain, holders(membership) - there)
        if not membership.terminating:
            capacity = capacity_of(membership, settings)
            _propose_adoptions(draft, domain, capacity)
            if membership.waiting or there - holders(draft.state.domains[domain]):
                _propose_assignments(draft, domain, capacity)
    return draft.decisions


def _propose_releases(draft: _Draft, domain: str, left: set[str]) -> None:
    holdings = draft.state.domains[domain].holdings
    for node in sorted(left):
        draft.add(IndexReleased(domain, node, holdings[node].index, "no label, no daemon"))


def _propose_adoptions(draft: _Draft, domain: str, capacity: int) -> None:
    """Propose to adopt rows; of two with one index, the one that sorts first by node stands."""
    membership = draft.state.domains[domain]
    rows = membership.cdc.rows if membership.cdc is not None else {}
    if all([_stands(membership, row) for row in rows.values()]):  # noqa: C419 - faster
        return  # the usual case
    for node in sorted(rows):
        row = rows[node]
        if row.index is not None and adoptable(draft.state, domain, row, capacity):
            draft.add(IndexAdopted(domain, node, row.index, capacity))


def _stands(membership: Membership, row: Row) -> bool:
    """Say whether the row's node holds the row's index."""
    own = membership.holdings.get(row.node)
    return own is not None and own.active and own.index == row.index


def _propose_assignments(draft: _Draft, domain: str, capacity: int) -> None:
    waiting = draft.state.domains[domain].waiting
    line = sorted(waiting, key=lambda node: (waiting[node], node))
    newcomers = [node for node in members(draft.state, domain) if node not in waiting]
    for node in [*line, *newcomers]:
        membership = draft.state.domains[domain]
        held = membership.holdings.get(node)
        if held is not None and held.active:
            continue
        index, cause = _choose(draft.state, domain, node, capacity)
        if index is not None:
            draft.add(IndexAssigned(domain, node, index, capacity, cause))
        elif node not in membership.waiting:
            draft.add(IndexRefused(domain, node, capacity))


def _choose(state: CliqueState, domain: str, node: str, capacity: int) -> tuple[int | None, str]:
    """Choose the index for a node: its own of before, else the lowest never used, else the longest released."""
    membership = state.domains[domain]
    taken = _taken(state, domain, capacity)
    own = membership.holdings.get(node)
    if own is not None and own.index < capacity and own.index not in taken:
        return own.index, "remembered"
    remembered = {held.index: held.since for held in membership.holdings.values()}
    # It ends at the first index that nobody has or had, so it takes no more steps than there are holdings and rows.
    fresh = next((index for index in range(capacity) if index not in taken and index not in remembered), None)
    if fresh is not None:
        return fresh, "never used"
    released = [index for index in remembered if 0 <= index < capacity and index not in taken]
    if released:
        return min(released, key=lambda index: (remembered[index], index)), "longest released"
    return None, ""


def capacity_of(membership: Membership, settings: Settings) -> int:
    """Give how many daemons the domain may have in one clique: what its DaemonSet told them, else the setting."""
    stated = membership.daemon_set.capacity if membership.daemon_set is not None else 0
    return stated or settings.capacity
