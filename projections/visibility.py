"""Visibility and controllers: what is kept of marks and starts.

Keys `watch/<resource>` hold the marks of one watched resource, keys `controller/<identity>` the starts of a controller,
keys `view/<number>` whose view of the cluster a partition holds. None changes an index; they tell the reader of a
history how far it can be trusted (rule 12).
"""

import msgspec
from msgspec.structs import replace

from eventlog.events import AnyEvent, ControllerStarted, RelistBegan, RelistCompleted, ViewCompleted, WatchGap


class WatchState(msgspec.Struct, frozen=True, tag="watch"):
    """How a resource was watched: numbers of relists and gaps, and the version of the newest complete list."""

    relists: int = 0
    gaps: int = 0
    complete: bool = False
    resource_version: int = 0


class ViewState(msgspec.Struct, frozen=True, tag="view"):
    """Who observed last: the records before hold its complete view, as far as it concerns this partition."""

    observer: str = ""


class ControllerState(msgspec.Struct, frozen=True, tag="controller"):
    """How often a controller started, and what it said of itself last."""

    version: str = ""
    settings: dict[str, str] = {}


def apply_watch(state: WatchState, event: AnyEvent) -> WatchState:
    """Take in a visibility mark."""
    match event:
        case RelistBegan():
            return replace(state, complete=False)
        case RelistCompleted():
            return replace(state, relists=state.relists + 1, complete=True, resource_version=event.resource_version)
        case WatchGap():
            return replace(state, gaps=state.gaps + 1, complete=False)
        case _:
            return state


def apply_view(state: ViewState, event: AnyEvent) -> ViewState:
    """Take in that an observer's view is complete."""
    return ViewState(event.observer) if isinstance(event, ViewCompleted) else state


def apply_controller(state: ControllerState, event: AnyEvent) -> ControllerState:
    """Take in a controller's start."""
    if isinstance(event, ControllerStarted):
        return replace(state, version=event.version, settings=event.settings)
    return state
