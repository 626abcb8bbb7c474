"""A few plain requests to the API server, for what the tests themselves do there.

Not the client under test: what checks a client, or plays the kubelets beside it, must not share its mistakes.
"""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

from kube.transport import TLS_CLOSES_LATE

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
CONNECTIONS = 48
RETRY_FOR_S = 60.0
RETRY_PAUSE_S = 0.2
LINE_LIMIT = 8 * 1024 * 1024


class Refused(Exception):
    """The API server's answer to a request that it did not carry out."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"HTTP {status}: {body}")
        self.status = status


class Api:
    """Requests as one kubeconfig's user, as JSON objects on paths such as `/api/v1/nodes/n0`.

    A server that is away for a while (a test restarts it) or says 429 is asked again, for a minute at most.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        config = yaml.safe_load(self._kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._session = aiohttp.ClientSession(
            base_url=cluster["server"],
            headers={"Authorization": f"Bearer {config['users'][0]['user']['token']}", "User-Agent": "cliquelog-tests"},
            connector=aiohttp.TCPConnector(
                ssl=ssl.create_default_context(cafile=cluster["certificate-authority"]),
                limit=CONNECTIONS,
                enable_cleanup_closed=TLS_CLOSES_LATE,
            ),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60),
            read_bufsize=LINE_LIMIT,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            await asyncio.sleep(0)

    async def get(self, path: str) -> Object:
        return await self._request("GET", path)

    async def items(self, path: str) -> list[Object]:
        found: list[Object] = (await self.get(path))["items"]
        return found

    async def create(self, path: str, body: Object) -> Object:
        return await self._request("POST", path, body)

    async def replace(self, path: str, body: Object) -> Object:
        """PUT; the resourceVersion that the body carries is the write's precondition."""
        return await self._request("PUT", path, body)

    async def patch(self, path: str, body: Object, kind: str = MERGE) -> Object:
        return await self._request("PATCH", path, body, kind)

    async def delete(self, path: str, *, uid: str | None = None, grace_s: int | None = None) -> None:
        """Delete; what is gone already, or is another object by now, is as wished."""
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            await self._request("DELETE", path, body)
        except Refused as error:
            if error.status not in (404, 409):
                raise

    async def watch(self, path: str, resource_version: str) -> AsyncGenerator[Object, None]:
        """Give watch events until the server ends the watch or goes away."""
        options = f"watch=1&allowWatchBookmarks=true&timeoutSeconds=50&resourceVersion={resource_version}"
        url = f"{path}{'&' if '?' in path else '?'}{options}"
        try:
            async with self._open().get(url) as answer:
                if answer.status == 200:
                    async for line in answer.content:
                        yield json.loads(line)
                elif answer.status not in (410, 429) and answer.status < 500:
                    raise Refused(answer.status, await answer.text())
        except (aiohttp.ClientError, TimeoutError):
            return

    async def _request(self, method: str, path: str, body: Object | None = None, kind: str | None = None) -> Object:
        give_up = time.monotonic() + RETRY_FOR_S
        while True:
            try:
                return await self._once(method, path, body, kind)
            except Refused as error:
                if (error.status != 429 and error.status < 500) or time.monotonic() > give_up:
                    raise
            except (aiohttp.ClientError, TimeoutError):
                if time.monotonic() > give_up:
                    raise
            await asyncio.sleep(RETRY_PAUSE_S)

    async def _once(self, method: str, path: str, body: Object | None, kind: str | None) -> Object:
        headers = {"Content-Type": kind or "application/json"}
        data = None if body is None else json.dumps(body)
        async with self._open().request(method, path, data=data, headers=headers) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise Refused(answer.status, text)
            parsed: Object = json.loads(text)
            return parsed

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            message = "Api is used outside its `async with`"
            raise RuntimeError(message)
        return self._session
