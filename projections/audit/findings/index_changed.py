"""The index of a running daemon changed: what breaks jobs while all probes are green (failure cases A12 to A15)."""

from collections.abc import Iterator

from eventlog.events import Row
from projections.audit.change import Change, RowChange
from projections.audit.finding import Evidence, Finding, Rule, evidence
from projections.clique import CliqueState, Membership

NO_POD = "the row was out meanwhile, and the history tells of no pod there: another daemon may have got its address"


class IndexChanged(Rule):
    """Follows the last row of each node; one of the same address is of the same daemon, unless its pod has gone."""

    code = "index-changed"
    severity = "error"
    title = "A daemon's index changed while the daemon lived"
    advice = "The IMEX process keeps the ID that it started with: restart the daemon, and see who took its row out."

    def __init__(self) -> None:
        """Know of no row."""
        self._last: dict[tuple[str, str, str], tuple[Row, Evidence]] = {}

    def take(self, change: Change) -> Iterator[Finding]:
        """See whether a row names another index for the same daemon."""
        for row in change.rows:
            place = (change.key, row.domain, row.node)
            if row.version is None:
                self._last.pop(place, None)
            elif row.after is not None and row.after.index is not None and row.after.ip:
                yield from self._compare(change, row, row.after, self._last.get(place))
                self._last[place] = (row.after, evidence(change))

    def _compare(
        self, change: Change, row: RowChange, now: Row, last: tuple[Row, Evidence] | None
    ) -> Iterator[Finding]:
        if last is None or last[0].ip != now.ip or last[0].index == now.index or is_another_life(change, row, now):
            return
        by = f" by {change.writer}" if change.writer else ""
        message = (
            f"the index of node {row.node} changed from {last[0].index} to {now.index}{by} while its daemon with "
            f"address {now.ip} lived"
        )
        doubt = "" if row.before is not None or _has_pod(change, row, now) else NO_POD
        yield self.finding(
            change, message, domain=row.domain, node=row.node, index=now.index, inferred=doubt, also=(last[1],)
        )


def is_another_life(change: Change, row: RowChange, now: Row) -> bool:
    """Say whether the pod that had the address is known to have gone: addresses are used again."""
    stones = [stone for membership in _memberships(change, row) for stone in membership.tombstones]
    return any(stone.node == now.node and stone.ip == now.ip for stone in stones)


def _has_pod(change: Change, row: RowChange, now: Row) -> bool:
    """Say whether a pod is known on the node that has the address, or none yet."""
    pods = [pod for membership in _memberships(change, row) for pod in membership.pods.values()]
    return any(pod.node == now.node and pod.ip in {"", now.ip} for pod in pods)


def _memberships(change: Change, row: RowChange) -> list[Membership]:
    states = [state for state in (change.before, change.after) if isinstance(state, CliqueState)]
    return [state.domains[row.domain] for state in states if row.domain in state.domains]
