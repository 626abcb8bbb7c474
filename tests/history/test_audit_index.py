"""The index of an audit answers for the very records that it was made of, and for no others."""

import asyncio
import json
from pathlib import Path

import pytest

from controller.history import audit_index
from controller.history.auditing import Audit, audit
from eventlog import codec
from eventlog.events import WatchGap
from tests.history.histories import audit_log, imported
from tests.history.rebuilt import AuditLog, row
from tests.history.test_import_command import cliquelog


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "cliquelog" / "audits"


async def test_what_was_kept_is_what_the_log_gives() -> None:
    log = await imported([audit_log("peer-churn-54")])
    key, found = await audit_index.key_of(log, ""), await audit(log)
    assert audit_index.load(key) is None
    audit_index.save(key, found)
    assert audit_index.load(await audit_index.key_of(log, "")) == found


async def test_a_record_more_or_another_one_has_another_key() -> None:
    log = await imported([audit_log("peer-churn-54")])
    before = await audit_index.key_of(log, "")
    await log.append([codec.entry("watch/pods", WatchGap("pods", 1, "one"), timestamp_ms=1, controller="test")])
    longer = await audit_index.key_of(log, "")
    other = await imported([audit_log("peer-churn-54")])
    await other.append([codec.entry("watch/pods", WatchGap("pods", 1, "two"), timestamp_ms=1, controller="test")])
    assert len({before, longer, await audit_index.key_of(other, "")}) == 3


async def _made() -> tuple[str, Audit]:
    log = await imported([audit_log("peer-churn-54")])
    return await audit_index.key_of(log, ""), await audit(log)


def test_one_that_is_damaged_or_cannot_be_written_costs_time_only(cache: Path) -> None:
    key, found = asyncio.run(_made())
    audit_index.save(key, found)
    (cache / key).write_bytes((cache / key).read_bytes()[:100])
    assert audit_index.load(key) is None
    (cache / key).unlink()
    cache.rmdir()
    cache.write_text("a file where the folder should be")
    audit_index.save(key, found)
    assert audit_index.load(key) is None


def test_only_the_newest_are_kept(cache: Path) -> None:
    _, found = asyncio.run(_made())
    for number in range(audit_index.KEPT + 5):
        audit_index.save(f"{number:064}", found)
    assert len(list(cache.iterdir())) == audit_index.KEPT
    assert audit_index.load(f"{audit_index.KEPT + 4:064}") == found


def test_a_log_that_another_has_replaced_is_not_answered_from_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and the last record are the same, and so are their places; what lies between is not."""
    monkeypatch.setattr(audit_index, "LEAST_RECORDS", 1)
    log = AuditLog()
    log.domain()
    for index in (0, 1):
        log.rows([row("a", "10.0.0.1", index)])
    log.rows([])
    path, place = tmp_path / "audit.jsonl", tmp_path / "log.sqlite"
    answers = []
    for lines in (log.lines, [line.replace('"index":1', '"index":7') for line in log.lines]):
        path.write_text("\n".join(lines))
        place.unlink(missing_ok=True)
        assert cliquelog("import", path, "--to", f"sqlite:{place}").exit_code == 0
        for _ in range(2):
            found = json.loads(cliquelog("audit", f"sqlite:{place}", "--json").stdout)
            answers.append([one["index"] for one in found["holdings"]])
    assert answers == [[0, 1], [0, 1], [0, 7], [0, 7]]
