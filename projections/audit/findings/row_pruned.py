"""A row was removed though its node came back: its index was free for others meanwhile."""

from collections.abc import Iterator

import msgspec

from eventlog.events import NodeGone, NodeSeen, Row
from projections.audit.change import Change, RowChange
from projections.audit.finding import Evidence, Finding, Rule, evidence, seconds
from projections.clique import CliqueState, labelled


class _Pruned(msgspec.Struct, frozen=True):
    """A row that is gone, and who removed it when."""

    row: Row
    writer: str
    time_ms: int
    version: int
    inferred: str
    evidence: Evidence


class RowPruned(Rule):
    """Remembers the rows that went, and tells of one when its node has a row again."""

    code = "row-pruned"
    severity = "warning"
    title = "A row was removed while its node lived, and the node came back"
    advice = "Between the two the index was free for another node: see index-not-kept for those that lost theirs."

    def __init__(self) -> None:
        """Know of no row that went."""
        self._gone: dict[tuple[str, str, str], _Pruned] = {}

    def take(self, change: Change) -> Iterator[Finding]:
        """Follow the rows that go and come, and nodes that leave: their watch may tell of it later."""
        self._follow_leave(change)
        for row in change.rows:
            place = (change.key, row.domain, row.node)
            if row.version is None:
                self._gone.pop(place, None)
            elif row.after is None and row.before is not None and not _left(change, row):
                self._gone[place] = _Pruned(
                    row.before, change.writer, change.time_ms, row.version, change.inferred, evidence(change)
                )
            elif row.before is None and row.after is not None and (pruned := self._gone.pop(place, None)):
                yield self._came_back(change, row, row.after, pruned)

    def _follow_leave(self, change: Change) -> None:
        """Forget a row that went after its node had left the domain."""
        event = change.event
        if not isinstance(event, NodeSeen | NodeGone) or not isinstance(change.before, CliqueState):
            return
        known = change.before.nodes.get(event.name)
        if known is None or change.clique is None or labelled(change.clique, known.domain, event.name):
            return
        place = (change.key, known.domain, event.name)
        pruned = self._gone.get(place)
        if pruned is not None and pruned.version > event.resource_version:
            del self._gone[place]

    def _came_back(self, change: Change, row: RowChange, now: Row, pruned: _Pruned) -> Finding:
        by = f" by {pruned.writer}" if pruned.writer else ""
        message = (
            f"the row of node {row.node} with index {pruned.row.index} was removed{by}, and the node came back after "
            f"{seconds(change.time_ms - pruned.time_ms)} with index {now.index}"
        )
        return self.finding(
            change,
            message,
            domain=row.domain,
            node=row.node,
            index=pruned.row.index,
            inferred=pruned.inferred,
            also=(pruned.evidence,),
        )


def _left(change: Change, row: RowChange) -> bool:
    """Say whether the node is known to have left the domain: by its label, or by a decision that released its index."""
    state = change.clique
    if state is None:
        return False
    membership = state.domains.get(row.domain)
    held = membership.holdings.get(row.node) if membership is not None else None
    if held is not None and not held.active:
        return True
    return _is_known(state, row.node) and not labelled(state, row.domain, row.node)


def _is_known(state: CliqueState, node: str) -> bool:
    return node in state.nodes
