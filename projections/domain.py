"""Placeholder until the domain projection lands."""

import msgspec

from eventlog.events import AnyEvent


class DomainState(msgspec.Struct, frozen=True, tag="domain"):
    """Domain."""


def apply_domain(state: DomainState | None, event: AnyEvent) -> DomainState:
    """Apply."""
    return state or DomainState()
