"""`cliquelog replay`: what our rules would have made of a history, beside what was recorded."""

import json
import random
import tempfile
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.commands.replay import rules_of
from controller.history import replay_report
from controller.history.replay_report import timeline_line
from controller.history.rerun import Decided
from controller.history.rerunning import Comparison, Outcome, Rules, rerun
from controller.history.timeline import Until, in_time_order
from controller.writing.coalescer import Coalescer, Limits
from controller.writing.pacing import Pace
from controller.writing.work import Applied, Refreshed
from controller.writing.work import Outcome as WorkOutcome
from eventlog import codec
from eventlog.events import AnyEvent, CdcSeen, DaemonPodGone, DaemonPodSeen, DomainSeen, IndexAssigned, NodeSeen, Row
from eventlog.memory import MemoryLog
from eventlog.record import Position
from projections.effects import AnyEffect, Target
from tests.history.histories import NAMES, audit_log, imported, truth, watches
from tests.history.test_import_command import CHURN, cliquelog

C = "c1.0"


async def replayed(log: MemoryLog, *changes: str, until: Until | None = None) -> Outcome:
    return await rerun(log, rules_of("driver", changes), None, until or Until(), speed=None, show=[].append)


async def recorded(*events: AnyEvent) -> MemoryLog:
    log = MemoryLog(partitions=2)
    for number, event in enumerate(events):
        await log.append([codec.entry(C, event, timestamp_ms=1_000_000 + 1000 * number, controller="test")])
    return log


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["audit", "watch"])
async def test_under_our_rules_every_node_of_the_peers_recordings_keeps_its_index(name: str, kind: str) -> None:
    outcome = await replayed(await imported([audit_log(name)] if kind == "audit" else watches(name)))
    assert outcome.replayed.changed == []
    assert len(outcome.recorded.changed) == (4 if name == CHURN else 0)
    assert outcome.recorded.indices.keys() == outcome.replayed.indices.keys()
    assert outcome.recorded.holdings == outcome.replayed.holdings == len(truth(name))
    assert outcome.replayed.writes * 2 < outcome.recorded.writes
    by_clique: dict[str, list[int]] = {}
    for (clique, _, _), indices in outcome.replayed.indices.items():
        by_clique.setdefault(clique, []).extend(indices)
    assert all(sorted(indices) == list(range(18)) for indices in by_clique.values())


async def test_a_replay_repeats_itself_and_partitions_do_not_matter() -> None:
    log = await imported([audit_log(CHURN)])
    one, two = await replayed(log), await replayed(log)
    assert one == two
    other = MemoryLog(partitions=1)
    async for _, record in in_time_order(log, Until()):
        event = codec.decode(record)
        await other.append([codec.entry(record.key, event, timestamp_ms=record.timestamp_ms, controller="import")])
    again = await replayed(other)
    assert again.digest == one.digest
    assert again.replayed == one.replayed


async def test_a_record_that_is_no_event_is_passed_over() -> None:
    log = await recorded(DomainSeen("d", 1, "jobs", "job", "t", "Single"), NodeSeen("n0", "u", 2, C, "d"))
    sound = await replayed(log)
    entry = codec.entry(C, NodeSeen("n1", "u", 3, C, "d"), timestamp_ms=1_002_000, controller="test")
    await log.append([msgspec.structs.replace(entry, value=b"cut sho")])
    assert (await replayed(log)).replayed == sound.replayed


async def test_our_own_log_replays_to_the_indices_that_it_holds() -> None:
    nodes = [NodeSeen(name, f"u-{name}", number + 2, C, "d") for number, name in enumerate("cab")]
    log = await recorded(
        DomainSeen("d", 1, "team", "job", "t", "Single"),
        nodes[0],
        IndexAssigned("d", "c", 0, 18),
        nodes[1],
        nodes[2],
        IndexAssigned("d", "a", 1, 18),
        IndexAssigned("d", "b", 2, 18),
    )
    outcome = await replayed(log)
    assert outcome.recorded.indices == outcome.replayed.indices
    assert {member[2]: indices for member, indices in outcome.replayed.indices.items()} == {
        "a": (1,),
        "b": (2,),
        "c": (0,),
    }


async def test_the_swap_of_1418_does_not_happen() -> None:
    """Failure case A14: the list of pods has no addresses yet, the rows are pruned, and the daemons choose anew."""
    a, b = Row("a", "10.0.0.1", 0), Row("b", "10.0.0.2", 1)
    log = await recorded(
        DomainSeen("d", 1, "team", "job", "t", "Single"),
        DaemonPodSeen("d", "a", "driver", "pa", "pa", 2, C),
        DaemonPodSeen("d", "b", "driver", "pb", "pb", 3, C),
        CdcSeen("d", C, "driver", f"d.{C}", "u", 4, (a,)),
        CdcSeen("d", C, "driver", f"d.{C}", "u", 5, (a, b)),
        CdcSeen("d", C, "driver", f"d.{C}", "u", 6, ()),
        CdcSeen("d", C, "driver", f"d.{C}", "u", 7, (Row("b", "10.0.0.2", 0),)),
        CdcSeen("d", C, "driver", f"d.{C}", "u", 8, (Row("b", "10.0.0.2", 0), Row("a", "10.0.0.1", 1))),
        DaemonPodSeen("d", "a", "driver", "pa", "pa", 9, C, "10.0.0.1"),
        DaemonPodSeen("d", "b", "driver", "pb", "pb", 10, C, "10.0.0.2"),
    )
    outcome = await replayed(log)
    assert {member[2]: indices for member, indices in outcome.recorded.indices.items()} == {"a": (0, 1), "b": (1, 0)}
    assert {member[2]: indices for member, indices in outcome.replayed.indices.items()} == {"a": (0,), "b": (1,)}


async def test_a_pod_that_comes_back_has_its_index_and_the_end_can_be_an_offset() -> None:
    log = await recorded(
        DomainSeen("d", 1, "team", "job", "t", "Single"),
        DaemonPodSeen("d", "a", "driver", "pa", "pa", 2, C, "1"),
        DaemonPodGone("d", "a", "pa", 3),
        DaemonPodSeen("d", "b", "driver", "pb", "pb", 4, C, "2"),
        DaemonPodSeen("d", "a", "driver", "pa2", "pa2", 5, C, "3"),
    )
    whole = await replayed(log)
    assert {member[2]: indices for member, indices in whole.replayed.indices.items()} == {"a": (0,), "b": (1,)}
    cut = await replayed(log, until=Until(offset=1))
    assert (cut.records, len(cut.replayed.indices)) == (2, 1)


async def flapping(records: int) -> MemoryLog:
    """Give a log of a node whose daemon is ready and not ready again, for so many records."""
    log = MemoryLog(partitions=1)
    events: list[AnyEvent] = [DomainSeen("d", 1, "jobs", "job", "t", "Single")]
    for number in range(records):
        ready = number % 2 == 0
        rows = (Row("a", "1", number // 2 % 2),)
        events.append(DaemonPodSeen("d", "a", "driver", "pa", "pa", 2 * number + 2, C, "1", ready=ready))
        events.append(CdcSeen("d", C, "driver", f"d.{C}", "u", 2 * number + 3, rows))
    entries = [
        codec.entry(C, event, timestamp_ms=1_000_000 + 5000 * number, controller="test")
        for number, event in enumerate(events)
    ]
    await log.append(entries)
    return log


async def grown(records: int) -> int:
    """Give the most memory that a replay beside another setting takes of its own, in bytes."""
    log = await flapping(records)
    rules, other = rules_of("driver", ()), rules_of("driver", ("status_gap_s=7",))
    tracemalloc.start()
    try:
        done = await rerun(log, rules, other, Until(), speed=None, show=lambda _: None)
        assert done.replayed.writes >= records
        assert done.beside is not None
        assert done.beside.divergence is None
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def test_memory_does_not_grow_with_the_acts() -> None:
    await grown(10)
    assert await grown(2000) - await grown(500) < 500_000, "1,500 writes more, and as many of the rules beside"


async def test_members_whose_index_went_to_and_fro_are_told_in_order() -> None:
    log = await flapping(9)
    outcome = await replayed(log)
    assert outcome.recorded.indices[C, "d", "a"] == (0, 1, 0, 1, 0)
    assert outcome.recorded.holdings == 5


def acted(position: int, time_ms: int = 0, index: int = 0) -> Decided:
    return Decided(time_ms, Position(0, position), C, IndexAssigned("d", "a", index, 18))


def test_two_reruns_differ_at_the_first_act_that_one_has_alone() -> None:
    comparison = Comparison()
    for side in (0, 1):
        comparison.acted(side, acted(1))
    comparison.compare()
    assert comparison.divergence is None
    comparison.acted(0, acted(2))
    comparison.acted(0, acted(3))
    comparison.compare()
    assert comparison.divergence == (acted(2), None)
    for place in (4, 5):
        for side in (0, 1):
            comparison.acted(side, acted(place))
        comparison.compare()
    assert comparison.divergence == (acted(2), acted(4))


class Asking(Coalescer):
    """Asks for a live read before each write, as it does after a hold that nothing released."""

    def __init__(self, pace: Pace, limits: Limits, rng: random.Random) -> None:
        super().__init__(pace, limits, rng)
        self.answers: list[WorkOutcome] = []

    def replace(self, now: float, owner: str, effects: Mapping[Target, AnyEffect], position: str) -> None:
        super().replace(now, owner, effects, position)
        for target in effects:
            self._slots[target].doubt = not self.answers

    def done(self, now: float, target: Target, outcome: WorkOutcome) -> None:
        self.answers.append(outcome)
        super().done(now, target, outcome)


async def test_a_live_read_is_answered_and_the_write_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Asking] = []

    def make(pace: Pace, limits: Limits, rng: random.Random) -> Asking:
        made.append(Asking(pace, limits, rng))
        return made[-1]

    monkeypatch.setattr("controller.history.rerun.Coalescer", make)
    log = await recorded(
        DomainSeen("d", 1, "team", "job", "t", "Single"), DaemonPodSeen("d", "a", "driver", "pa", "pa", 2, C, "1")
    )
    assert (await replayed(log)).replayed.writes == 1
    assert made[0].answers == [Refreshed(0), Applied(3)]


async def test_a_history_without_the_compute_domain_tells_that_nothing_was_decided() -> None:
    a0, a1 = Row("a", "10.0.0.1", 0), Row("a", "10.0.0.1", 1)
    rows = [
        CdcSeen("d", C, "driver", f"d.{C}", "u", 4, (a0,)),
        CdcSeen("d", C, "driver", f"d.{C}", "u", 5, (a1,)),
    ]
    outcome = await replayed(await recorded(*rows))
    document = replay_report.document(outcome, outcome.recorded, {})
    assert (document.recorded.index_changed, document.replayed.index_changed) == (1, None)
    assert "does not show the ComputeDomain of 1 domain (d)" in (document.note or "")
    known = await replayed(await recorded(DomainSeen("d", 1, "team", "job", "t", "Single"), *rows))
    document = replay_report.document(known, known.recorded, {})
    assert (document.replayed.index_changed, document.note) == (0, None)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = f"sqlite:{tmp_path_factory.mktemp('replay') / 'log.sqlite'}"
    assert cliquelog("import", audit_log(CHURN), "--to", place).exit_code == 0
    return place


def as_json(log: str, *options: str) -> dict[str, Any]:
    done: dict[str, Any] = json.loads(cliquelog("replay", log, "--json", *options).stdout)
    return done


def test_the_json_form_is_documented_and_tells_each_write_as_it_would_have_been_sent(log: str) -> None:
    done = as_json(log, "--set", "capacity=9")
    document = (Path(__file__).parents[2] / "docs" / "history.md").read_text()
    assert list(done)[-1] == "timeline"
    for part in (done, done["recorded"], done["members"][0], done["what_if"], done["what_if"]["divergence"]):
        for field in part:
            assert f"`{field}`" in document, field
    writes = [act for act in done["timeline"] if act["kind"] == "write"]
    assert len(writes) == done["replayed"]["writes"]
    assert {act["method"] for act in writes} == {"create", "patch"}
    assert all(len({row["index"] for row in act["body"]["daemons"]}) == len(act["body"]["daemons"]) for act in writes)
    assert {member["node"] for member in done["members"] if len(member["recorded"]) > 1} == {
        "node-00004",
        "node-00011",
        "node-00020",
        "node-00033",
    }


def test_without_the_timeline_the_json_form_is_the_same_but_for_it(log: str) -> None:
    assert as_json(log, "--summary") == {**as_json(log), "timeline": []}


def test_a_folder_that_takes_no_timeline_is_told_in_a_sentence(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    done = cliquelog("replay", log, "--json")
    assert done.exit_code == 3
    assert "the timeline cannot be kept in /nowhere (No such file or directory); set TMPDIR" in done.stderr


def test_a_setting_is_tried_beside_and_the_first_difference_is_named(log: str) -> None:
    found = as_json(log, "--set", "capacity=9")["what_if"]
    assert "gets index" in found["divergence"]["base"]["message"]
    assert "waits: the clique has 9 indices" in found["divergence"]["changed"]["message"]
    assert as_json(log, "--set", "capacity=19")["what_if"]["divergence"] is None


def test_what_was_recorded_elsewhere_can_be_compared_with(log: str, tmp_path: Path) -> None:
    other = f"sqlite:{tmp_path / 'watch.sqlite'}"
    cliquelog("import", *watches(CHURN), "--to", other)
    done = cliquelog("replay", other, "--summary", "--against", log)
    assert done.exit_code == 0
    assert "node node-00004: recorded 6, then 7; replayed " in done.stdout
    assert "404" in done.stdout


def test_the_timeline_has_a_line_an_act_and_stops_where_it_is_told(log: str) -> None:
    whole = cliquelog("replay", log).stdout.splitlines()
    cut = cliquelog("replay", log, "--until", "+5s").stdout.splitlines()
    acts = [line for line in whole if line.startswith(" ") and "/" in line]
    assert len(acts) == len(as_json(log)["timeline"])
    assert 0 < len([line for line in cut if line in acts]) < len(acts)


@pytest.mark.parametrize(
    "options",
    [("--until", "soon"), ("--set", "capacity"), ("--set", "capacity=x"), ("--set", "nothing=1"), ("--speed", "0")],
)
def test_a_wrong_command_line_is_refused(log: str, options: tuple[str, ...]) -> None:
    done = cliquelog("replay", log, *options)
    assert done.exit_code == 2
    assert "Error: " in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--until", "99/120"), "--until 99/120: the log has partitions 0 to 23; name one of them"),
        (("--until", "2020-01-01"), "is before the log begins"),
        (("--set", "growth=0"), "'growth=0' sets nothing: give a number from 1 to 1000"),
        (("--set", "spread=5"), "'spread=5' sets nothing: give a number from 0 to 1"),
        (("--set", "spread=nan"), "'spread=nan' sets nothing: give a number from 0 to 1"),
        (("--set", "capacity=2.5"), "'capacity=2.5' sets nothing: give a whole number from 1 to 1000"),
        (("--set", "quiet_s=1", "--set", "quiet_s=2"), "--set gives quiet_s twice"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_mend(log: str, options: tuple[str, ...], said: str) -> None:
    done = cliquelog("replay", log, *options)
    assert done.exit_code == 2
    assert said in done.stderr


def test_help_and_document_name_every_setting() -> None:
    document = (Path(__file__).parents[2] / "docs" / "history.md").read_text()
    told = cliquelog("replay", "--help").stdout
    for name in ("capacity", *Pace.__struct_fields__):
        assert f"`{name}`" in document, name
        assert f"`{name}`" in told, name


def test_the_rules_are_the_controllers_own_unless_they_are_set() -> None:
    assert rules_of("default", ()) == rules_of("default", ("capacity=18",))
    assert isinstance(rules_of("default", ("max_wait_s=5",)), Rules)


def test_a_name_that_a_terminal_would_obey_is_not_in_the_timeline() -> None:
    act = Decided(1000, Position(0, 1), C, IndexAssigned("d", "n\u001b[2Jx", 3, 18))
    assert timeline_line(act, 0).endswith("c1.0  node n\N{REPLACEMENT CHARACTER}[2Jx gets index 3")
