"""A row was removed while its pod lived: pruning on absence (failure cases A11, A12, A14)."""

from collections.abc import Iterator, Sequence

import msgspec

from eventlog.events import DaemonPodGone, DaemonPodSeen, Row
from projections.audit.change import Change, RowChange
from projections.audit.finding import Finding, Rule
from projections.audit.holdings import Holding
from projections.clique import CliqueState, Pod, row_is_dead

NO_LATER_WORD = "the history has no later word of the pod, so its deletion may be missing"
END_UNTOLD = "the history does not tell when the pod went"


class _Case(msgspec.Struct, frozen=True):
    """A finding that waits for a later word of the pod: `version` is that of the CDC without the row."""

    finding: Finding
    version: int


class RowRemoved(Rule):
    """Watches are not ordered among each other, so what a pod's later events say of the moment decides."""

    code = "row-removed"
    severity = "error"
    title = "A row was removed while its daemon pod lived"
    advice = "See who wrote the clique object: a controller that prunes on absence takes live rows out."

    def __init__(self) -> None:
        """Have no case."""
        self._cases: dict[str, list[_Case]] = {}

    def take(self, change: Change) -> Iterator[Finding]:
        """Open a case for each row that went while its pod was known, and close those that the record decides."""
        for row in change.rows:
            if row.after is None and row.version is not None:
                self._open(change, row, row.version)
        match change.event:
            case DaemonPodSeen(uid=uid, resource_version=version, terminating=is_ending):
                yield from self._seen(uid, version, is_ending=is_ending)
            case DaemonPodGone(uid=uid, resource_version=version):
                yield from self._gone(uid, version, END_UNTOLD if change.inferred else "")

    def end(self, holdings: Sequence[Holding], end_ms: int) -> Iterator[Finding]:
        """Give the cases that nothing decided, as inferred."""
        del holdings, end_ms
        for cases in self._cases.values():
            for case in cases:
                yield msgspec.structs.replace(case.finding, inferred=case.finding.inferred or NO_LATER_WORD)

    def _open(self, change: Change, row: RowChange, version: int) -> None:
        found = _pod_of(change, row)
        if found is None or row.before is None or _was_dead(change, row, row.before):
            return
        uid, pod = found
        by = f" by {change.writer}" if change.writer else ""
        address = f"with address {pod.ip}" if pod.ip else "had no address yet, and"
        message = (
            f"the row of node {row.node} with index {row.before.index} was removed{by} while its pod {address} lived"
        )
        finding = self.finding(change, message, domain=row.domain, node=row.node, index=row.before.index)
        self._cases.setdefault(uid, []).append(_Case(finding, version))

    def _seen(self, uid: str, version: int, *, is_ending: bool) -> Iterator[Finding]:
        """Close the pod's cases that this decides: it lived if it was seen after the row went, unless it ended before.

        A watch of pods that lags tells only later that a daemon was ending, which takes its row out itself.
        """
        for case in self._cases.pop(uid, []):
            if version > case.version:
                yield case.finding
            elif not is_ending:
                self._cases.setdefault(uid, []).append(case)

    def _gone(self, uid: str, version: int, doubt: str) -> Iterator[Finding]:
        """Close the pod's cases: it lived if it went after the row did; who only concludes that it went cannot tell."""
        for case in self._cases.pop(uid, []):
            if doubt:
                yield msgspec.structs.replace(case.finding, inferred=case.finding.inferred or doubt)
            elif version > case.version:
                yield case.finding


def _was_dead(change: Change, row: RowChange, before: Row) -> bool:
    """Say whether the row was of a daemon that is known to have gone, whoever is on the node since."""
    membership = change.before.domains.get(row.domain) if isinstance(change.before, CliqueState) else None
    return membership is not None and row_is_dead(membership, before)


def _pod_of(change: Change, row: RowChange) -> tuple[str, Pod] | None:
    """Give the pod whose row it was: on its node, staying, with its address or none yet."""
    membership = change.clique.domains.get(row.domain) if change.clique is not None else None
    if membership is None or row.before is None:
        return None
    for uid, pod in sorted(membership.pods.items()):
        if pod.node == row.node and not pod.terminating and pod.ip in {"", row.before.ip}:
            return uid, pod
    return None
