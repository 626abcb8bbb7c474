"""What the API wraps objects in: list pages, watch events, bookmarks, and the Status of a refusal."""

from typing import Generic, TypeVar

import msgspec

from kube.client import Resource
from kube.objects import KubeObject, Struct, Version, type_of

T = TypeVar("T")


class ListMeta(Struct, frozen=True):
    """What a list page says of itself; `token` continues the list and is empty on the last page."""

    version: Version = msgspec.field(name="resourceVersion")
    token: str = msgspec.field(name="continue", default="")

    @property
    def resource_version(self) -> int:
        """The version as of which the whole list, all pages of it, is complete."""
        return int(self.version)


class ListPage(Struct, Generic[T], frozen=True):
    """One page of a list."""

    metadata: ListMeta
    items: tuple[T, ...]


class BookmarkMeta(Struct, frozen=True):
    """The one thing that a bookmark says."""

    version: Version = msgspec.field(name="resourceVersion")


class Bookmark(Struct, frozen=True):
    """The object of a BOOKMARK event: everything up to this resourceVersion has been sent."""

    metadata: BookmarkMeta


class StatusDetails(Struct, frozen=True):
    """Details of a refusal."""

    name: str = ""
    kind: str = ""
    retry_after_seconds: float | None = None


class Status(Struct, frozen=True):
    """The API server's account of a request that it did not carry out."""

    kind: str = ""
    status: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class WatchEvent(Struct, frozen=True):
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, with the object still encoded.

    `type` is empty where the line is not a watch event but a bare Status, which some servers and proxies send in an
    answer with status 200 (failure case B3).
    """

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"")


def page_decoder(resource: Resource) -> msgspec.json.Decoder[ListPage[KubeObject]]:
    """Give the decoder of a list page of a kind."""
    kind = type_of(resource)
    return msgspec.json.Decoder(ListPage[kind])  # type: ignore[valid-type]  # the parameter is known at run time only
