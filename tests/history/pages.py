"""Pages of logs that a test makes: from a recording, or with names that want to be markup."""

import base64
import gzip
import re
from functools import cache
from html.parser import HTMLParser

import msgspec

from controller.reporting.model import Data, Page
from controller.reporting.page import Library, library, render
from controller.reporting.reading import read
from eventlog import codec
from eventlog.event import Event, Provenance
from eventlog.events import CdcSeen, DomainSeen, NodeSeen, Row, WatchGap, WriteAnswered
from eventlog.memory import MemoryLog
from tests.history.histories import audit_log, imported

HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "</template></style><img src=x onerror=\"document.title='owned'\">",
    '"><svg onload="document.title=1">',
    "<a href='https://example.invalid/'>click</a>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "%{x}<br><b>bold</b>&lt;i&gt;",
    "${alert(1)}`'\\",
    "\u202e\u2028\u2029\x01 right to left",
    "n" * 300,
)
"""Names that would be markup, script, a template, or a chart library's own markup, if they were not mere text."""


class Parsed(HTMLParser):
    """What a page is made of: its tags with the names of their attributes, addresses, ids, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.addresses += [value or "" for name, value in attrs if name in {"href", "src", "action", "data"}]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@cache
def charts() -> Library:
    """Pack the library once: it takes longer than all else."""
    return library()


def rendered(page: Page) -> str:
    return render(page, charts()).decode()


async def page_of(log: MemoryLog) -> str:
    return rendered(await read(log, "memory:log"))


async def page_of_recording(name: str) -> str:
    return await page_of(await imported([audit_log(name)]))


def packed(page: str, name: str) -> bytes:
    """Give what the page carries under this name."""
    found = re.search(rf'<template id="{name}">([A-Za-z0-9+/=]+)</template>', page)
    assert found is not None
    return gzip.decompress(base64.b64decode(found[1]))


def data_of(page: str) -> Data:
    return msgspec.json.decode(packed(page, "data"), type=Data)


async def log_with_names(names: tuple[str, ...]) -> MemoryLog:
    """Make a log in which each name stands wherever a name can: of a node, domain, object, user, file, reason."""
    log = MemoryLog(partitions=3)
    for number, name in enumerate(names):
        clique, domain = f"{name.replace('/', '')[:40]}.{number}", f"domain-{number}"
        for step, event in enumerate(events(name, clique, domain)):
            key = "watch/import" if isinstance(event, WatchGap) else domain if isinstance(event, DomainSeen) else clique
            time_ms = 1_795_000_000_000 + 1000 * step
            await log.append([codec.entry(key, event, timestamp_ms=time_ms, controller=name)])
    return log


def events(name: str, clique: str, domain: str) -> list[Event]:
    told = Provenance(name, name, name, name)
    cdc = CdcSeen(domain, clique, name, name, "uid", 0, provenance=told)
    moved = [(Row(name, "10.0.0.1", 1, "Ready"),), (), (Row(name, "10.0.0.2", 2), Row("other", "", 1, "Ready"))]
    return [
        DomainSeen(domain, 1, name, name, provenance=told),
        NodeSeen(name, "uid", 1, clique, domain, provenance=told),
        *(msgspec.structs.replace(cdc, resource_version=2 + step, rows=rows) for step, rows in enumerate(moved)),
        *(
            WriteAnswered(domain, "computedomaincliques", name, name, "update", 409, clique, name, provenance=told)
            for _ in range(12)
        ),
        WatchGap("import", 9, name, provenance=told),
    ]


async def odd_log() -> MemoryLog:
    """Make a log with times at the beginning of 1970 and past all calendars, and with indices that no clique has."""
    log = MemoryLog(partitions=3)
    rows = tuple(Row(f"node-{number}", "10.0.0.1", number * 10**15 - 5, "Ready") for number in range(100))
    for number, time_ms in enumerate((0, 2**62)):
        clique, domain = f"clique.{number}", f"domain-{number}"
        seen = [DomainSeen(domain, 1, "namespace", "name"), CdcSeen(domain, clique, "n", "n", "uid", 2, rows)]
        for key, event in zip((domain, clique), seen, strict=True):
            await log.append([codec.entry(key, event, timestamp_ms=time_ms, controller="c")])
    return log
