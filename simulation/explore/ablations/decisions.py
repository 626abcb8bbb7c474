"""Ablations of decisions: who says which node gets which index, and for how long it holds."""

from collections.abc import Callable

from msgspec.structs import replace

from controller import app
from controller.engines.consumer import PartitionConsumer
from eventlog.events import Decision, IndexReleased, Row
from eventlog.record import Position
from projections import desired, index, lifecycle
from projections.clique import CliqueState, Membership
from projections.desired import clique_effects
from projections.index import apply_decision, propose
from simulation.explore.ablations.ablation import Ablation, Swap

Rows = Callable[[CliqueState, str], dict[str, Row]]


class ActsBeforeTheLog(PartitionConsumer):
    """Writes what it has decided without waiting for the log to give the decision back."""

    async def _act(self, keys: set[str]) -> set[str]:
        position = str(Position(self._partition, self._fold.next_offset - 1))
        undecided = await super()._act(keys)
        for key in sorted(undecided):
            state = self._fold.aggregates[key]
            if isinstance(state, CliqueState):
                for decision in propose(state, self._settings):
                    state = apply_decision(state, decision)
                self._hand_on(key, clique_effects(state, key, self._settings), position)
        return undecided


class DecidesAgain(PartitionConsumer):
    """Decides without having read back what it decided before."""

    @property
    def _is_level(self) -> bool:
        return True


def _admit(state: CliqueState, decision: Decision) -> str:
    there = state.domains.get(decision.domain)
    return "" if there is not None and there.known else "the domain is not known"


def _forget(_: object) -> Callable[[CliqueState, Membership, IndexReleased], Membership]:
    def released(_: CliqueState, there: Membership, decision: IndexReleased) -> Membership:
        return replace(there, holdings={node: held for node, held in there.holdings.items() if node != decision.node})

    return released


def _close_up(rows_of: Rows) -> Rows:
    """Give rows that are numbered anew from 0, in the order of their indices."""

    def rows(state: CliqueState, domain: str) -> dict[str, Row]:
        ordered = sorted(rows_of(state, domain).values(), key=lambda row: -1 if row.index is None else row.index)
        return {row.node: replace(row, index=number) for number, row in enumerate(ordered)}

    return rows


ABLATIONS = (
    Ablation(
        "log-arbitrates",
        "a decision is carried out before the log has given it back",
        "rule 1: two controllers that both believe to be in charge",
        (Swap(app, "PartitionConsumer", lambda _: ActsBeforeTheLog),),
    ),
    Ablation(
        "admissibility-check",
        "the fold takes every decision, whatever came before it in the log",
        "rule 1; A4: two controllers give one index twice",
        (Swap(index, "objection", lambda _: _admit),),
    ),
    Ablation(
        "read-back",
        "decides again before what was decided is read back",
        "a log whose readers lag is filled with repetitions",
        (Swap(app, "PartitionConsumer", lambda _: DecidesAgain),),
    ),
    Ablation(
        "sticky-index",
        "an index that is released is not remembered for its node",
        "rule 5; A39: a node that comes back gets another index",
        (Swap(index, "_released", _forget),),
    ),
    Ablation(
        "index-for-keeps",
        "indices are closed up when a row goes",
        "rule 5; A12, A13: an index changes under a daemon that runs with it",
        (Swap(desired, "desired_rows", _close_up),),
    ),
    Ablation(
        "finalizer-last",
        "the ComputeDomain is let go at once when it is deleted",
        "A48: daemon pods that stay Terminating",
        (Swap(lifecycle, "everything_is_gone", lambda _: lambda _state: True),),
    ),
)
