"""The rules of an audit: one a module. `docs/findings.md` is generated from them."""

from projections.audit.finding import Rule
from projections.audit.findings.conflict_storm import ConflictStorm
from projections.audit.findings.index_changed import IndexChanged
from projections.audit.findings.index_held_twice import IndexHeldTwice
from projections.audit.findings.index_not_kept import IndexNotKept
from projections.audit.findings.ready_without_address import ReadyWithoutAddress
from projections.audit.findings.row_pruned import RowPruned
from projections.audit.findings.row_removed import RowRemoved
from projections.audit.findings.visibility_gap import VisibilityGap
from projections.audit.findings.write_delayed import WriteDelayed


def rules() -> tuple[Rule, ...]:
    """Make all rules anew, in the order of the documents; they keep what they have seen."""
    return (
        IndexChanged(),
        IndexHeldTwice(),
        RowRemoved(),
        ReadyWithoutAddress(),
        IndexNotKept(),
        RowPruned(),
        ConflictStorm(),
        WriteDelayed(),
        VisibilityGap(),
    )
