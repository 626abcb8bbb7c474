"""The reflector: one list and watch loop per selector, told as a closed vocabulary of events."""

import msgspec

from kube.client import Selector
from kube.objects import KubeObject


class RelistBegan(msgspec.Struct, frozen=True):
    """A complete list is about to be asked for; an earlier list that did not complete is void.

    What was observed before this moment and is neither listed nor seen by `RelistCompleted` is gone. `cause` is a
    sentence for people.
    """

    selector: Selector
    cause: str


class ObjectSeen(msgspec.Struct, frozen=True):
    """An object as it is at its resourceVersion: from a list (`listed`), or added or modified in the watch."""

    selector: Selector
    object: KubeObject
    listed: bool


class RelistCompleted(msgspec.Struct, frozen=True):
    """All that matched the selector at `resource_version`, `objects` many, has been told since `RelistBegan`."""

    selector: Selector
    resource_version: int
    objects: int


class ObjectDeleted(msgspec.Struct, frozen=True):
    """An object was deleted, or no longer matches the selector's labels; the watch does not say which.

    The object is as it last matched, with the resourceVersion of the change that removed it.
    """

    selector: Selector
    object: KubeObject


class Gap(msgspec.Struct, frozen=True):
    """Changes after `resource_version` may have been missed; a relist follows. It is 0 if nothing was complete yet."""

    selector: Selector
    resource_version: int
    cause: str


ReflectorEvent = RelistBegan | ObjectSeen | RelistCompleted | ObjectDeleted | Gap
