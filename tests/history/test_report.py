"""`cliquelog report`: what the page shows, that it is whole, and that a name in a log is never more than text."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plotly.offline import get_plotlyjs

from controller import exits
from controller.history.auditing import Audit, Known, audit
from controller.reporting.building import CLIQUES_MAX, HOLDINGS_MAX, RECORDS_MAX, page, wanted
from controller.reporting.page import SWAPS_MAX, headlines
from controller.reporting.reading import UpToNow, read
from controller.reporting.records import RecordView
from eventlog.memory import MemoryLog
from eventlog.record import Position
from projections.audit.holdings import Holding, Moment
from projections.audit.moves import moves
from projections.audit.timeline import DAY_MS, STEPS_MAX, WIDTHS_MS, Level, Timeline, Writes, step_width
from tests.history.histories import NAMES, audit_log, audited, imported, lines, watches
from tests.history.pages import HOSTILE, Parsed, data_of, log_with_names, packed, page_of, page_of_recording, rendered
from tests.history.test_import_command import CHURN, cliquelog


@pytest.fixture(scope="module")
def churn() -> str:
    return asyncio.run(page_of_recording(CHURN))


def answers(name: str) -> Counter[int]:
    """Count the API server's answers to writes of clique objects, straight from the audit log."""
    told = [json.loads(line) for line in lines(audit_log(name))]
    return Counter(
        one["responseStatus"]["code"]
        for one in told
        if one.get("objectRef", {}).get("resource") == "computedomaincliques"
        and one["verb"] in {"create", "update", "patch"}
        and one["stage"] == "ResponseComplete"
    )


@pytest.mark.parametrize("name", NAMES)
async def test_writes_are_those_of_the_audit_log(name: str) -> None:
    shown = await read(await imported([audit_log(name)]), "log")
    told = answers(name)

    assert shown.writes == Writes(told[200] + told[201], told[409], told[429], 0)
    assert sum(one.writes.conflicts for one in shown.data.cliques) == told[409]
    assert sum(one.accepted for one in shown.data.steps.writes) == shown.writes.accepted
    assert sum(step[1] for one in shown.data.cliques for step in one.steps) == shown.writes.accepted


@pytest.mark.parametrize("name", NAMES)
async def test_watches_and_audit_log_tell_of_the_same_accepted_writes_and_rows(name: str) -> None:
    by_log, by_watch = [await read(await imported(paths), "log") for paths in ([audit_log(name)], watches(name))]

    assert by_log.writes.accepted == by_watch.writes.accepted
    assert by_log.level == by_watch.level


async def test_the_timeline_ends_with_what_the_fold_ends_with_and_is_never_below_nothing() -> None:
    shown = await read(await imported([audit_log(CHURN)]), "log")
    levels = shown.data.steps.levels

    assert levels[-1] == Level(54, 54, 54, 54) == sum((one.level for one in shown.data.cliques), Level())
    assert all(min(one.pods, one.pods_ready, one.rows, one.rows_ready) >= 0 for one in levels)
    assert all(one.pods_ready <= one.pods and one.rows_ready <= one.rows for one in levels)
    assert min(one.rows for one in levels[len(levels) // 2 :]) == 46, "eight rows were pruned"


@given(st.integers(0, 2**63))
def test_a_step_is_the_narrowest_width_that_the_chart_has_room_for(span_ms: int) -> None:
    width = step_width(span_ms)

    assert span_ms // width < STEPS_MAX
    narrower = [one for one in WIDTHS_MS if one < width] or [0]
    assert width == 1 or span_ms // (narrower[-1] if width <= DAY_MS else width - DAY_MS) >= STEPS_MAX


async def test_the_nodes_that_came_back_with_another_index_are_paired() -> None:
    found = moves((await audited([audit_log(CHURN)])).holdings)

    assert {(one.begun.node, one.ended.index, one.begun.index, one.partner) for one in found} == {
        ("node-00004", 6, 7, "node-00011"),
        ("node-00011", 7, 6, "node-00004"),
        ("node-00020", 11, 9, "node-00033"),
        ("node-00033", 9, 11, "node-00020"),
    }


def held(number: int, *, clique: str = "c.1", index: int = 0) -> Holding:
    begin = Moment(number, Position(0, number), "row written", "", "")
    return Holding(clique, "d", f"node-{number}", index, begin, None, 1, None, (), decided=False)


def test_a_move_to_an_index_whose_holder_did_not_move_the_other_way_has_no_partner() -> None:
    one, other = held(1, index=3), held(2, index=4)
    (found,) = moves([one, other, msgspec.structs.replace(held(3, index=4), node=one.node)])

    assert (found.ended.index, found.begun.index, found.partner) == (3, 4, "")


def swapped(count: int) -> tuple[Holding, ...]:
    """Give the holdings of so many cliques in each of which two nodes exchange their indices."""
    found: list[Holding] = []
    for number in range(count):
        first, second = held(0, clique=f"c.{number}", index=0), held(1, clique=f"c.{number}", index=1)
        later = [Moment(10 + step, Position(1, number * 2 + step), "row written", "", "") for step in range(2)]
        found += [first, second]
        found.append(msgspec.structs.replace(first, index=1, begin=later[0]))
        found.append(msgspec.structs.replace(second, index=0, begin=later[1]))
    return tuple(found)


@pytest.mark.parametrize(("count", "told"), [(1, 1), (SWAPS_MAX, SWAPS_MAX), (SWAPS_MAX + 1, SWAPS_MAX)])
def test_each_exchange_is_told_once_and_of_many_the_first_ones(count: int, told: int) -> None:
    shown = page("log", Audit(1, 0, 100, {}, Known(), swapped(count), ()), Timeline(0, 100), {}, 0)
    lines = [(one.badge, one.target) for one in headlines(shown)]

    assert lines[:told] == [("swap", f"#clique-{number}") for number in range(told)]
    assert lines[told:] == ([("more", "#moves")] if count > told else [])
    assert (shown.moves_count, len(shown.moves)) == (2 * count, 2 * count)


def test_what_grows_with_a_history_is_bounded_and_what_is_left_out_is_counted() -> None:
    many = tuple(held(number, clique=f"c.{number}") for number in range(RECORDS_MAX + 7))
    one_clique = tuple(held(number) for number in range(HOLDINGS_MAX + 5))
    positions, left_out = wanted(Audit(1, 0, 1, {}, Known(), many, ()))
    wide = page("log", Audit(1, 0, 1, {}, Known(), many, ()), Timeline(0, 1), {}, left_out)
    deep = page("log", Audit(1, 0, 1, {}, Known(), one_clique, ()), Timeline(0, 1), {}, 0)

    assert (len(positions), left_out) == (RECORDS_MAX, 7)
    assert (len(wide.data.cliques), wide.cliques_left_out) == (CLIQUES_MAX, len(many) - CLIQUES_MAX)
    assert [(len(one.holdings), one.holdings_left_out) for one in deep.data.cliques] == [(HOLDINGS_MAX, 5)]
    assert deep.data.cliques[0].holdings[-1].node == one_clique[-1].node, "the newest are kept"
    assert f"{wide.cliques_left_out:,} more cliques are left out" in rendered(wide)


async def test_a_page_carries_what_was_computed_and_the_library_as_it_is(churn: str) -> None:
    shown = await read(await imported([audit_log(CHURN)]), "memory:log")

    assert data_of(churn) == shown.data
    assert packed(churn, "charts").decode() == get_plotlyjs()
    assert churn == rendered(shown), "equal logs give equal pages"


def test_every_link_leads_to_a_place_in_the_page_or_to_a_record_that_it_holds(churn: str) -> None:
    parsed, data = Parsed(churn), data_of(churn)
    positions = {f"#record-{position.replace('/', '-')}" for position in data.views}

    assert len(parsed.ids) == len(set(parsed.ids))
    assert set(parsed.addresses) <= positions | {f"#{one}" for one in parsed.ids}
    assert {position for one in data.cliques for held in one.holdings for position in (held.begin, held.end)} - {
        None
    } <= data.views.keys()


def test_the_first_thing_that_a_page_says_is_who_exchanged_indices(churn: str) -> None:
    text = " ".join("".join(Parsed(churn).text).split())
    told = text.index("node-00011 and node-00004 exchanged indices 7 and 6, from 12:24:53.618 on")

    assert told < text.index("A node came back with another index than it had before (4)")
    assert told < text.index("Indices that moved", text.index("(4)"))


def test_a_record_shows_its_source_its_writer_and_what_it_changed(churn: str) -> None:
    data = data_of(churn)
    views = [msgspec.json.decode(one, type=RecordView) for one in data.views.values()]
    gone = [view for view in views if any("node-00004 went" in text for text in view.effect)]

    assert [(view.type, view.position, view.writer) for view in gone] == [
        ("cdc-seen", "0/196", "system:serviceaccount:driver:compute-domain-controller")
    ]
    assert gone[0].source.endswith("audit.jsonl.gz:860")
    assert gone[0].effect[0] == "row of node node-00004 went: it had index 6, 10.64.0.4, Ready"
    assert len(gone[0].rows) == 14


async def test_names_in_a_log_are_text_and_nothing_else() -> None:
    harmless = Parsed(await page_of(await log_with_names(tuple(f"name-{n}" for n in range(len(HOSTILE))))))
    page = await page_of(await log_with_names(HOSTILE))
    hostile = Parsed(page)

    assert hostile.tags == harmless.tags
    assert all(address.startswith("#") for address in hostile.addresses)
    assert "</script><script>" not in page
    assert "49" not in "".join(hostile.text).split(), "a name is no template"
    for name in HOSTILE:
        assert any(name in text for text in hostile.text), name


def tags_of(name: str) -> list[tuple[str, tuple[str, ...]]]:
    async def page() -> str:
        return await page_of(await log_with_names((name,)))

    return Parsed(asyncio.run(page())).tags


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), min_size=1))
def test_whatever_the_name_the_page_has_the_same_tags(name: str) -> None:
    assert tags_of(name) == tags_of("name")


async def test_a_page_of_an_empty_log_says_so() -> None:
    page = await page_of(MemoryLog(partitions=2))

    assert "the log is empty" in page
    assert data_of(page).cliques == []


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = f"sqlite:{tmp_path_factory.mktemp('report') / 'log.sqlite'}"
    assert cliquelog("import", audit_log(CHURN), "--to", place).exit_code == 0
    return place


def test_the_command_writes_one_file_and_replaces_an_older_one(log: str, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    output.write_text("<!DOCTYPE html>old")
    done = cliquelog("report", log, "-o", output)

    assert done.exit_code == 0
    assert done.stdout == f"{output}: {output.stat().st_size / 1e6:.1f} MB, 3 cliques, 18 findings\n"
    assert output.read_text().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_what_is_no_log_is_one_sentence_and_makes_no_page(tmp_path: Path) -> None:
    done = cliquelog("report", f"sqlite:{tmp_path / 'absent.sqlite'}", "-o", tmp_path / "page.html")

    assert done.exit_code == exits.LOG
    assert done.stderr.startswith("Error: ")
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_cannot_be_written_is_one_sentence_and_leaves_nothing(log: str, tmp_path: Path) -> None:
    done = cliquelog("report", log, "-o", tmp_path / "absent" / "page.html")

    assert done.exit_code == exits.CONFIGURATION
    assert "cannot be written: No such file or directory; give -o a file" in done.stderr
    assert list(tmp_path.iterdir()) == []


async def test_what_is_appended_meanwhile_is_not_in_the_page() -> None:
    whole = await imported([audit_log(CHURN)])
    ends = [await whole.end_offset(partition) for partition in range(whole.partitions)]
    earlier = UpToNow(whole, [end // 2 for end in ends])
    shown = await read(earlier, "log")

    assert shown.data.records == sum(end // 2 for end in ends)
    assert shown.writes.accepted < (await read(whole, "log")).writes.accepted


async def test_the_audit_of_the_page_is_the_audit_of_the_command() -> None:
    log = await imported([audit_log(CHURN)])
    found, shown = await audit(log), await read(log, "log")

    assert Counter(one.code for one in found.findings) == {group.code: group.count for group in shown.groups}
    assert sum(len(one.holdings) for one in shown.data.cliques) == len(found.holdings)
