"""What the report shows, as values: the page's own, and those that its script draws."""

import msgspec

from projections.audit.finding import Finding, Severity
from projections.audit.moves import Move
from projections.audit.timeline import Level, Writes


class FindingView(msgspec.Struct, frozen=True):
    """A finding in the page; `section` is the number of its clique's section, None where it has none."""

    finding: Finding
    section: int | None


class FindingGroup(msgspec.Struct, frozen=True):
    """The findings of one code: `count` of them, of which some may not be listed."""

    code: str
    severity: Severity
    title: str
    advice: str
    count: int
    listed: list[FindingView]


class MoveView(msgspec.Struct, frozen=True):
    """A node that had one index and then another; `section` as for a finding."""

    move: Move
    section: int | None


class HoldingView(msgspec.Struct, frozen=True):
    """A holding in the page: `end_ms` and `end` are None while it lasts, `inferred` is empty if it was observed."""

    node: str
    index: int
    begin_ms: int
    end_ms: int | None
    begin: str
    end: str | None
    cause: str
    end_cause: str
    inferred: str


class Mark(msgspec.Struct, frozen=True):
    """A finding in the chart of its clique."""

    time_ms: int
    code: str
    severity: Severity
    node: str
    index: int | None


class CliqueView(msgspec.Struct, frozen=True):
    """The section of one domain in one clique. `moved` are the nodes that had more than one index.

    `holdings` are the newest ones, `holdings_left_out` how many older ones there are. `steps` are the writes by step:
    number of the step, accepted, conflicts, throttled, refused otherwise.
    """

    number: int
    clique: str
    domain: str
    domain_name: str
    level: Level
    writes: Writes
    formed_after_ms: int | None
    moved: list[str]
    errors: int
    warnings: int
    holdings: list[HoldingView]
    holdings_left_out: int
    marks: list[Mark]
    steps: list[tuple[int, int, int, int, int]]


class Steps(msgspec.Struct, frozen=True):
    """The history in steps of one width: levels at the end of each, and the writes within it."""

    begin_ms: int
    width_ms: int
    levels: list[Level]
    writes: list[Writes]


class Data(msgspec.Struct, frozen=True):
    """What the page's script draws; `views` are the records by their position.

    Each is a `controller.reporting.records.RecordView`, encoded as soon as it is made: as objects, the records that a
    page has room for take twice the memory of all the rest.
    """

    records: int
    begin_ms: int
    end_ms: int
    steps: Steps
    cliques: list[CliqueView]
    views: dict[str, msgspec.Raw]


class Page(msgspec.Struct, frozen=True):
    """All that the page shows. `log` is the place of the log as the user named it, `moves_count` all moves.

    `views_left_out` and `cliques_left_out` count what the page has no room for.
    """

    log: str
    level: Level
    writes: Writes
    formed_after_ms: int | None
    groups: list[FindingGroup]
    moves: list[MoveView]
    moves_count: int
    data: Data
    views_left_out: int
    cliques_left_out: int
