"""Whether a log is whole: the log's half of `cliquelog verify`, for every engine.

A sound partition holds records in rising offsets (without gaps where the engine gives none), each fit and decodable,
each with the headers of its event and in the partition of its key. The head of its hash chain sums up its history: the
same head on another day, or in a copy on another engine, proves that nothing before it was changed.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from eventlog.codec import NewerSchema, UndecodableRecord, decode
from eventlog.log import EventLog
from eventlog.partitioner import partition_for
from eventlog.reading import batches
from eventlog.record import GENESIS, Entry, Record, chain, refusal

MAX_FINDINGS = 100
"""Findings that a report names; the others are only counted, so that a ruined log gives a readable report."""

PRINT_BYTES = 3
"""Bytes of a head that are kept for each record, to tell later which one was changed."""

_LIMIT = 2_000


class Finding(msgspec.Struct, frozen=True):
    """Something wrong with the record at `offset` of `partition`.

    `code` is one of `offset-order`, `offset-gap`, `unfit-record`, `undecodable`, `newer-schema`, `type-mismatch`,
    `wrong-partition`; `message` says it in a sentence.
    """

    partition: int
    offset: int
    code: str
    message: str


class PartitionReport(msgspec.Struct, frozen=True):
    """What a partition holds: `records` from offset `beginning` up to `next_offset`, and the chain's `head` after them.

    `findings` are the first `MAX_FINDINGS` of `findings_count`. The head starts at `beginning`: where the oldest
    records are gone, it can only be compared with one that began at the same offset. `prints` has the first
    `PRINT_BYTES` of the head after each record; `noted_head` is the head after as many records as were asked about,
    None if there are fewer.
    """

    partition: int
    beginning: int
    next_offset: int
    records: int
    head: bytes
    findings: Sequence[Finding]
    findings_count: int
    prints: bytes
    noted_head: bytes | None


async def check(log: EventLog, noted: Mapping[int, int], *, dense: bool) -> Sequence[PartitionReport]:
    """Read the whole log, up to the ends that it has now, and report on each partition.

    `noted` gives, by partition, the number of records whose head is asked for (`eventlog.heads`); 0 if it is not there.
    `dense` says whether the engine gives offsets without gaps: SQLite and memory do, Kafka does not.
    """
    return [
        await check_partition(log, partition, noted.get(partition, 0), dense=dense)
        for partition in range(log.partitions)
    ]


async def check_partition(log: EventLog, partition: int, noted: int, *, dense: bool) -> PartitionReport:
    """Read one partition up to the end that it has now, and report on it."""
    beginning = await log.beginning_offset(partition)
    next_offset, records, head = beginning, 0, GENESIS
    prints = bytearray()
    noted_head = GENESIS if noted == 0 else None
    findings: list[Finding] = []
    count = 0
    async for batch in batches(log, partition, beginning, await log.end_offset(partition), limit=_LIMIT):
        for record in batch:
            for finding in _findings(record, next_offset, log.partitions, dense=dense):
                count += 1
                if len(findings) < MAX_FINDINGS:
                    findings.append(finding)
            head = chain(head, record)
            next_offset = record.offset + 1
            records += 1
            prints += head[:PRINT_BYTES]
            if records == noted:
                noted_head = head
    return PartitionReport(partition, beginning, next_offset, records, head, findings, count, bytes(prints), noted_head)


def _findings(record: Record, expected: int, partitions: int, *, dense: bool) -> Iterator[Finding]:
    def finding(code: str, message: str) -> Finding:
        return Finding(record.partition, record.offset, code, message)

    if record.offset < expected:
        yield finding("offset-order", f"offset {record.offset} comes after offset {expected - 1}")
    elif dense and record.offset > expected:
        yield finding("offset-gap", f"the records from offset {expected} to {record.offset - 1} are missing")
    entry = Entry(record.key, record.timestamp_ms, record.headers, record.value)
    if reason := refusal(entry):
        yield finding("unfit-record", reason)
    elif (right := partition_for(record.key, partitions)) != record.partition:
        yield finding("wrong-partition", f"key {record.key!r} belongs to partition {right}")
    try:
        tag = str(type(decode(record)).__struct_config__.tag)
    except UndecodableRecord as error:
        yield finding("undecodable", str(error))
    except NewerSchema as error:
        yield finding("newer-schema", str(error))
    else:
        if tag != record.headers.event_type:
            yield finding("type-mismatch", f"the headers say {record.headers.event_type!r} and the event is {tag!r}")
