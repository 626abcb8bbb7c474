"""What others put into a log's topic is counted, each once, and takes little memory however much of it there is."""

import tracemalloc

from controller.commands.strangers import Strangers
from eventlog.integrity import MAX_FINDINGS
from eventlog.record import Position

MANY = 200_000


def test_each_is_counted_once_and_the_first_is_named_whatever_is_read_first() -> None:
    strangers = Strangers()
    for offset in (5_000, 7, 1_023, 1_024, 7, 5_000):
        strangers(Position(3, offset), "it has no key")
    strangers(Position(4, 0), "it has no header")
    assert (strangers.count, strangers.first) == (5, "3/7")
    assert next(iter(strangers.lines())) == "3/7 not-ours: it has no key; it was passed over"
    assert len(list(strangers.lines())) == 5


def test_a_topic_full_of_them_takes_no_memory_for_each() -> None:
    strangers = Strangers()
    tracemalloc.start()
    try:
        for offset in range(MANY):
            strangers(Position(0, offset), f"its key {offset} is not ours")
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used < MANY
    lines = list(strangers.lines())
    assert len(lines) == MAX_FINDINGS + 1
    assert lines[-1] == "partition 0: 199,900 more not-ours that were passed over"
    assert strangers.count == MANY
