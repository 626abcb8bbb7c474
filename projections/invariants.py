"""What holds in every run, as functions that tests, the simulation and `verify` share.

Each gives the violations that it finds, one sentence each, naming domain, node and index; none means that it holds.
"""

from collections.abc import Iterator

from eventlog.events import Row
from eventlog.record import Position
from projections.clique import CliqueState, Holding, Membership, is_member, labelled
from projections.effects import WriteCdc
from projections.index import apply_decision, propose
from projections.settings import Settings


def indices_are_unique(state: CliqueState) -> list[str]:
    """Check that no two nodes of a domain hold or remember one index, and that none is negative (rule 5)."""
    found = []
    for domain, membership in sorted(state.domains.items()):
        seen: dict[int, str] = {}
        for node in sorted(membership.holdings):
            index = membership.holdings[node].index
            if index < 0:
                found.append(f"domain {domain}: node {node} has the negative index {index}")
            if index in seen:
                found.append(f"domain {domain}: nodes {seen[index]} and {node} both have index {index}")
            seen[index] = node
    return found


def indices_are_kept(before: CliqueState, after: CliqueState) -> list[str]:
    """Check that no index that a daemon may be using changed, or was lost by a node that still is a member (rule 5)."""
    return list(_changes(before, after))


def _changes(before: CliqueState, after: CliqueState) -> Iterator[str]:
    for domain, old in sorted(before.domains.items()):
        new = after.domains.get(domain)
        if new is None:
            continue
        for node, held in sorted(old.holdings.items()):
            if not (held.active and held.shown):
                continue
            now = new.holdings.get(node)
            if now is not None and now.active and now.index != held.index and not _is_another_life(held, now):
                yield f"domain {domain}: the index of node {node} changed from {held.index} to {now.index}"
            if (now is None or not now.active) and is_member(after, domain, node):
                yield f"domain {domain}: node {node} lost index {held.index} while it is a member"


def _is_another_life(before: Holding, now: Holding) -> bool:
    """Say whether the index is shown to a daemon of another address, which chose it itself."""
    return bool(before.shown_to) and bool(now.shown_to) and before.shown_to != now.shown_to


def write_is_sound(state: CliqueState, effect: WriteCdc, capacity: int) -> list[str]:
    """Check a CDC write: one row a node, indices unique and in range, Ready only with an address, no live row lost."""
    found = _row_violations(effect, capacity)
    membership = state.domains[effect.domain]
    written = {row.node for row in effect.rows}
    observed = membership.cdc.rows if membership.cdc is not None else {}
    for node in sorted(set(observed) - written):
        if _is_alive(state, effect.domain, membership, observed[node]):
            found.append(f"{effect.target.name}: the row of node {node} is taken out though its daemon lives")
    return found


def _row_violations(effect: WriteCdc, capacity: int) -> list[str]:
    found = []
    nodes: set[str] = set()
    indices: dict[int, str] = {}
    for row in effect.rows:
        if row.node in nodes:
            found.append(f"{effect.target.name}: node {row.node} has two rows")
        nodes.add(row.node)
        if row.index is not None and row.index in indices:
            found.append(f"{effect.target.name}: nodes {indices[row.index]} and {row.node} share index {row.index}")
        if row.index is not None:
            indices[row.index] = row.node
            if not 0 <= row.index < capacity:
                found.append(f"{effect.target.name}: node {row.node} has index {row.index}, outside 0..{capacity - 1}")
        if row.status == "Ready" and not row.ip:
            found.append(f"{effect.target.name}: node {row.node} is Ready without an address")
    return found


def _is_alive(state: CliqueState, domain: str, membership: Membership, row: Row) -> bool:
    """Say whether a daemon may be using the row.

    It may if a pod on its node has the row's address, or has none yet and the row's is not that of a dead pod; not if
    the node waits for a slot: the row is then from before its index was released.
    For our own daemons the label alone is reason enough to keep the row: it holds the index that was promised. An
    upstream daemon's row with an address of which nothing is known may be of a pod whose events are late.
    """
    if row.node in membership.waiting:
        return False
    addresses = {pod.ip for pod in membership.pods.values() if pod.node == row.node and not pod.terminating}
    of_the_dead = {stone.ip for stone in membership.tombstones if stone.node == row.node}
    if row.ip in addresses or ("" in addresses and row.ip not in of_the_dead):
        return True
    if membership.daemon_set is not None and membership.daemon_set.reader:
        return labelled(state, domain, row.node)
    return bool(row.ip) and row.ip not in of_the_dead


def proposals_settle(state: CliqueState, settings: Settings) -> list[str]:
    """Check that once its proposals are taken in, a state proposes nothing more (writes stop: design section 8)."""
    for decision in propose(state, settings):
        state = apply_decision(state, decision)
    return [f"still proposed: {decision}" for decision in propose(state, settings)]


class WritesGoForward:
    """Follows the CDCs of a log: no write may be computed from an earlier place in it than the write before (rule 8).

    A CDC names the place of the last write of ours. One that lies behind the record which shows it is of another log
    (somebody started with a new one), and says nothing.
    """

    def __init__(self) -> None:
        """Know of no write."""
        self._named: dict[str, Position] = {}

    def take(self, position: Position, before: CliqueState, after: CliqueState) -> list[str]:
        """Check the CDCs that the record at `position` showed."""
        return list(self._take(position, before, after)) if before.domains is not after.domains else []

    def _take(self, position: Position, before: CliqueState, after: CliqueState) -> Iterator[str]:
        for domain, membership in sorted(after.domains.items()):
            cdc, old = membership.cdc, before.domains.get(domain)
            if cdc is None or (old is not None and old.cdc is cdc):
                continue
            named, last = _place(cdc.position), self._named.pop(cdc.uid, None)
            if named is None or named.partition != position.partition or named.offset >= position.offset:
                continue
            self._named[cdc.uid] = named
            if last is not None and named < last:
                yield f"{cdc.name}: a write computed at {named} came after one computed at {last}"


def _place(text: str) -> Position | None:
    """Read `<partition>/<offset>`; None for what is no place, since anybody can write the annotation."""
    partition, _, offset = text.partition("/")
    parts = (partition, offset)
    if not all(part.isascii() and part.isdecimal() and len(part) < 20 for part in parts):
        return None
    return Position(int(partition), int(offset))
