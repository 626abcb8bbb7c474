"""Whatever a history holds, why gives an answer, and one that agrees with itself."""

import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from controller.history import explaining
from controller.history.why_report import Document, document, show
from eventlog import codec
from eventlog.events import AnyEvent
from eventlog.log import EventLog
from eventlog.memory import MemoryLog
from projections.audit.standing import STEPS
from projections.audit.why import Explanation, explain
from tests.eventlog.any_event import any_event
from tests.history.histories import NAMES, audit_log, imported, truth

TEXTS = st.sampled_from(["", "n0", "n1", "d", "fabric.1", "10.0.0.1", "Ready"]) | st.text(max_size=3)
KEYS = st.sampled_from(["fabric.1", "fabric.2", "d", "e", "watch/nodes", "controller/c"])
NODES = st.sampled_from(["n0", "n1", "d", "driver/n0", "", "/", "no such node"])
CLIQUE_STEPS = set(STEPS)


def agrees(answer: Explanation) -> None:
    """Check that an answer does not contradict itself, that it can be shown, and that its JSON form reads back."""
    assert {step.name for step in answer.steps} in (set(), CLIQUE_STEPS)
    times = [step.time_ms for step in answer.steps if step.time_ms is not None]
    assert times == sorted(times)
    assert all(one.milliseconds >= 0 for one in answer.shares)
    total = sum(one.share for one in answer.shares)
    assert total == pytest.approx(1.0) or not any(one.milliseconds for one in answer.shares)
    if answer.missing is None:
        assert answer.look_at == ""
        assert {step.name for step in answer.steps if step.time_ms is None} <= {
            "label",
            "index",
            "pod",
            "address",
            "ready",
        }
    else:
        assert answer.look_at.startswith("kubectl ")
    written = msgspec.json.encode(document(answer))
    read = msgspec.json.decode(written, type=Document)
    text = io.StringIO()
    show(read, Console(file=text, width=80))
    assert all(sign.isprintable() or sign == "\n" for sign in text.getvalue())


async def answered(log: EventLog, subject: str, until_ms: int | None) -> Explanation:
    return explain(await explaining.situation(log, subject, until_ms))


@given(st.lists(st.tuples(KEYS, any_event(TEXTS)), max_size=12), NODES, st.none() | st.integers(0, 12))
async def test_any_events_have_an_answer(
    events: list[tuple[str, AnyEvent]], subject: str, until_ms: int | None
) -> None:
    log = MemoryLog(partitions=2)
    await log.append(
        [codec.entry(key, event, timestamp_ms=number, controller="c") for number, (key, event) in enumerate(events)]
    )
    agrees(await answered(log, subject, until_ms))


@pytest.mark.parametrize("name", NAMES)
async def test_every_node_of_a_recording_has_an_answer_at_any_time(name: str) -> None:
    """It holds the index that the truth says, whenever it is ready, and at the end it is ready if it holds one."""
    log = await imported([audit_log(name)])
    begin_ms = await explaining.begin_ms(log)
    held = {(node, index) for _, node, index, _, _ in truth(name)}
    lasting = {node for _, node, _, _, ended in truth(name) if ended is None}
    for node in sorted(lasting)[::9]:
        for seconds in range(0, 60, 7):
            answer = await answered(log, node, begin_ms + seconds * 1000)
            agrees(answer)
            if answer.missing is None:
                assert (node, answer.index) in held
        assert (await answered(log, node, None)).missing is None
