"""The API server's own account of the requests that it answered.

The tests count writes, conflicts and throttled requests here and not in the program under test: the server cannot
flatter it. The log is written before each answer is sent, so whoever has an answer finds its line.
"""

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
import yaml

WRITES = ("create", "update", "patch", "delete")


def write_policy(path: Path) -> None:
    """Write the audit policy: bodies for writes of the driver's objects, the bare request for the rest."""
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "nonResourceURLs": ["*"]},
            {
                "level": "RequestResponse",
                "verbs": list(WRITES),
                "resources": [
                    {"group": "resource.nvidia.com"},
                    {"group": "apps", "resources": ["daemonsets"]},
                    {"group": "resource.k8s.io", "resources": ["resourceclaimtemplates"]},
                ],
            },
            {"level": "Metadata"},
        ],
    }
    path.write_text(yaml.safe_dump(policy))


class User(msgspec.Struct):
    username: str


class Target(msgspec.Struct):
    """What the request was about; `name` is empty for lists, watches and some creations."""

    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Answer(msgspec.Struct):
    code: int = 0


class Request(msgspec.Struct, rename="camel"):
    """One answered request. Bodies are raw JSON, there only for writes of the driver's objects."""

    verb: str
    user: User
    stage: str
    object_ref: Target = msgspec.field(default_factory=Target)
    response_status: Answer = msgspec.field(default_factory=Answer)
    user_agent: str = ""
    request_received_timestamp: str = ""
    request_object: msgspec.Raw = msgspec.Raw()
    response_object: msgspec.Raw = msgspec.Raw()


class AuditLog:
    """The audit log file of one API server; it grows over its restarts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(Request)

    def mark(self) -> int:
        """Give the present end, to count from."""
        return self._path.stat().st_size

    def lines(self, since: int = 0) -> list[bytes]:
        """Give the whole lines after `since`, as they are."""
        with self._path.open("rb") as lines:
            if since > 0:  # as in `_all`
                lines.seek(since - 1)
                lines.readline()
            return [line for line in lines if line.endswith(b"\n")]

    def requests(
        self,
        since: int = 0,
        *,
        user: str | None = None,
        agent: str | None = None,
        verbs: Collection[str] | None = None,
        resource: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        codes: Collection[int] | None = None,
    ) -> list[Request]:
        """Give the answered requests after `since` that have every property stated; `agent` is a prefix."""
        return [
            request
            for request in self._all(since)
            if user in (None, request.user.username)
            and (agent is None or request.user_agent.startswith(agent))
            and (verbs is None or request.verb in verbs)
            and resource in (None, request.object_ref.resource)
            and namespace in (None, request.object_ref.namespace)
            and name in (None, request.object_ref.name)
            and (codes is None or request.response_status.code in codes)
        ]

    def _all(self, since: int) -> Iterator[Request]:
        with self._path.open("rb") as lines:
            if since > 0:  # a mark may fall into a line that was being written; that request came before the mark
                lines.seek(since - 1)
                lines.readline()
            for line in lines:
                if not line.endswith(b"\n"):
                    return  # the server is still writing this one
                request = self._decoder.decode(line)
                if request.stage == "ResponseComplete":
                    yield request
