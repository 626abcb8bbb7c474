"""Ablations of the writes: what they are computed from, what they state, and when they go out."""

from collections.abc import Callable

import msgspec

from controller import app
from controller.writing import coalescer
from controller.writing.coalescer import Coalescer
from controller.writing.pacing import Pace
from controller.writing.slot import Slot
from kube.client import KubeError, Resource
from kube.names import CDCS
from kube.retry import Backoff
from projections.effects import AnyEffect
from simulation.api import Api
from simulation.explore.ablations.ablation import Ablation, Swap
from simulation.store import Key

Patch = Callable[..., bytes]
Delete = Callable[[Api, Resource, Key, bytes], bytes]


def _state_no_version(patch: Patch) -> Patch:
    """Patch CDCs whatever has become of them."""

    def patched(api: Api, resource: Resource, key: Key, body: bytes, *, kind: str, subresource: str) -> bytes:
        if resource == CDCS:
            told = msgspec.json.decode(body)
            told["metadata"].pop("resourceVersion", None)
            body = msgspec.json.encode(told)
        return patch(api, resource, key, body, kind=kind, subresource=subresource)

    return patched


def _test_nothing(patch: Patch) -> Patch:
    """Take the label off whatever it says."""

    def patched(api: Api, resource: Resource, key: Key, body: bytes, *, kind: str, subresource: str) -> bytes:
        if kind == "json":
            body = msgspec.json.encode([one for one in msgspec.json.decode(body) if one["op"] != "test"])
        return patch(api, resource, key, body, kind=kind, subresource=subresource)

    return patched


def _state_no_uid(delete: Delete) -> Delete:
    """Delete whatever has the name."""
    return lambda api, resource, key, _: delete(api, resource, key, b"")


class ForgetsWhileBusy(Slot):
    """Takes no wish while a write is in flight."""

    def want(self, now: float, owner: str, effect: AnyEffect, position: str) -> None:
        """Take the newest effect, if nothing is out."""
        if not self.in_flight:
            super().want(now, owner, effect, position)


class SendsAtOnce(Slot):
    """Sends what is newly wanted though a write is in flight."""

    def due(self, pace: Pace) -> float | None:
        """Give the earliest time for the next write or read."""
        if not self.in_flight or self.since is None:
            return super().due(pace)
        self.in_flight = False
        try:
            return super().due(pace)
        finally:
            self.in_flight = True


class AsksNothing(Slot):
    """Does not read the live object after a conflict, or after an answer that was lost."""

    def question(self) -> None:
        """Have no doubt."""


class HoldsNothing(Coalescer):
    """Does not wait until the fold has seen a write."""

    def _hold(self, now: float, slot: Slot, base: int, version: int | None) -> None:
        del now, base, version
        slot.hold = None


class PausesForNobody(Coalescer):
    """Comes back when it likes."""

    def _back_off(self, now: float, slot: Slot, asked_s: float) -> None:
        del asked_s
        super()._back_off(now, slot, 0.0)


def _asked_for(_: Backoff, error: KubeError) -> float:
    del error
    return 0.0


ABLATIONS = (
    Ablation(
        "patch-precondition",
        "patches of CDCs state no resourceVersion",
        "rule 8; A17, A34: a late write goes back behind a newer one",
        (Swap(Api, "patch", _state_no_version),),
    ),
    Ablation(
        "delete-precondition",
        "deletions state no UID",
        "rule 3: a late deletion takes a successor of the same name",
        (Swap(Api, "delete", _state_no_uid),),
        covered="nothing does: a deletion must be late by seconds and meet a successor of the same name, which is "
        "rarer than one run in 200 (seed 160 showed it under an earlier schedule)",
    ),
    Ablation(
        "unlabel-precondition",
        "a node's label is taken off whatever domain it names",
        "rule 8; A35: a late write takes a node from its next domain",
        (Swap(Api, "patch", _test_nothing),),
    ),
    Ablation(
        "one-in-flight",
        "a write goes out while another of the same object is under way",
        "rule 7: writes of one object overtake each other",
        (Swap(coalescer, "Slot", lambda _: SendsAtOnce),),
    ),
    Ablation(
        "trailing-flush",
        "a change that comes while a write is in flight is forgotten",
        "rule 7; A3: the last change is never written",
        (Swap(coalescer, "Slot", lambda _: ForgetsWhileBusy),),
    ),
    Ablation(
        "hold",
        "the next write does not wait until the fold has seen the last one",
        "rules 3 and 8; A34: acting on a stale read of one's own",
        (Swap(app, "Coalescer", lambda _: HoldsNothing),),
    ),
    Ablation(
        "live-read",
        "no live read after a conflict or a lost answer",
        "rule 8; A7: the same stale version again and again",
        (Swap(coalescer, "Slot", lambda _: AsksNothing),),
    ),
    Ablation(
        "retry-after",
        "Retry-After is not heeded",
        "B10, B11; A1: throttling that feeds itself",
        (Swap(app, "Coalescer", lambda _: PausesForNobody), Swap(Backoff, "_asked_for", lambda _: _asked_for)),
    ),
)
