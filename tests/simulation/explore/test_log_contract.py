"""Without faults the log of the exploration is the log that it wraps.

Only `close` is left out of the contract: the log outlives the processes of a run, so a process closes nothing.
"""

from collections.abc import Callable

import pytest

from eventlog.log import EventLog, SnapshotStore
from eventlog.memory import MemoryLog, MemorySnapshots
from eventlog.record import Entry
from simulation.explore.checkers.decisions import CheckedLog
from simulation.explore.faulty_log import FaultyLog, FaultySnapshots
from tests.eventlog.conftest import PARTITIONS, entry  # noqa: F401 - a fixture
from tests.eventlog.test_contract import (  # noqa: F401 - the contract
    test_a_cancelled_append_takes_no_other_append_with_it,
    test_a_cancelled_read_leaves_the_log_usable,
    test_a_later_snapshot_replaces_the_one_before_and_no_other_partitions,
    test_a_partition_that_is_not_there_is_refused,
    test_a_partition_without_a_snapshot_has_none,
    test_a_read_at_the_end_gives_an_empty_answer_when_its_time_is_over,
    test_a_read_below_the_beginning_is_refused,
    test_a_read_gives_no_more_than_its_limit,
    test_a_read_of_no_records_is_refused,
    test_a_read_that_waits_is_woken_by_an_append,
    test_a_record_comes_back_whole_at_the_position_that_append_gave,
    test_a_snapshot_comes_back_as_it_was_saved,
    test_a_snapshot_of_the_same_offset_replaces_the_one_before,
    test_an_append_of_nothing_gives_no_positions,
    test_an_entry_goes_to_the_partition_that_its_key_has_in_kafka,
    test_an_older_snapshot_does_not_replace_a_newer_one,
    test_an_unfit_entry_is_refused_together_with_the_rest_of_its_append,
    test_appends_at_the_same_time_are_all_there_each_in_its_own_order,
    test_every_one_of_many_waiting_reads_is_woken_by_the_append_to_its_partition,
    test_in_an_empty_partition_beginning_and_end_are_one,
    test_records_of_a_partition_are_read_in_the_order_in_which_they_were_appended,
    test_the_end_is_past_every_record_and_never_falls,
)
from tests.simulation.explore.ports import latency, process


@pytest.fixture
async def log() -> EventLog:
    return CheckedLog(FaultyLog(MemoryLog(partitions=PARTITIONS), process(), latency()))


@pytest.fixture
async def snapshots() -> SnapshotStore:
    return FaultySnapshots(MemorySnapshots(), process(), {})


async def test_what_is_acknowledged_is_noted(entry: Callable[..., Entry]) -> None:  # noqa: F811 - the fixture
    log = FaultyLog(MemoryLog(partitions=PARTITIONS), process(), latency())
    written = entry()
    (position,) = await log.append([written])
    assert log.acknowledged == [(position, written)]
