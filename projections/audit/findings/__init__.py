"""The rules of an audit: one a module. `docs/findings.md` is generated from them."""

from projections.audit.finding import Rule
from projections.audit.findings.clique_full import CliqueFull
from projections.audit.findings.conflict_storm import ConflictStorm
from projections.audit.findings.decision_without_effect import DecisionWithoutEffect
from projections.audit.findings.domains_overlap import DomainsOverlap
from projections.audit.findings.index_changed import IndexChanged
from projections.audit.findings.index_held_twice import IndexHeldTwice
from projections.audit.findings.index_not_kept import IndexNotKept
from projections.audit.findings.index_out_of_range import IndexOutOfRange
from projections.audit.findings.node_in_two_cliques import NodeInTwoCliques
from projections.audit.findings.object_twice import ObjectTwice
from projections.audit.findings.readiness_flapping import ReadinessFlapping
from projections.audit.findings.ready_without_address import ReadyWithoutAddress
from projections.audit.findings.row_pruned import RowPruned
from projections.audit.findings.row_removed import RowRemoved
from projections.audit.findings.stuck_deletion import StuckDeletion
from projections.audit.findings.throttled import Throttled
from projections.audit.findings.visibility_gap import VisibilityGap
from projections.audit.findings.write_delayed import WriteDelayed


def rules() -> tuple[Rule, ...]:
    """Make all rules anew, in the order of the documents; they keep what they have seen."""
    return (
        IndexChanged(),
        IndexHeldTwice(),
        IndexOutOfRange(),
        RowRemoved(),
        ReadyWithoutAddress(),
        NodeInTwoCliques(),
        IndexNotKept(),
        RowPruned(),
        DomainsOverlap(),
        ObjectTwice(),
        CliqueFull(),
        ReadinessFlapping(),
        StuckDeletion(),
        ConflictStorm(),
        Throttled(),
        WriteDelayed(),
        VisibilityGap(),
        DecisionWithoutEffect(),
    )
