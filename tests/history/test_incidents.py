"""The incidents of `docs/incidents/`: rebuilt as told, walked through as written."""

import re
from pathlib import Path

import pytest

from controller.commands.replay import rules_of
from controller.history.rerunning import rerun
from controller.history.timeline import Until
from tests.history.histories import audited, imported
from tests.history.rebuilt import INCIDENTS, REBUILT, text_of
from tests.history.walkthroughs import STEP, executed

WALKTHROUGHS = sorted(path for path in INCIDENTS.glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("name", REBUILT)
def test_the_audit_log_is_the_one_that_the_story_gives(name: str) -> None:
    assert (INCIDENTS / f"{name}.audit.jsonl").read_text(encoding="utf-8") == text_of(name)


def test_every_incident_has_its_walkthrough_and_is_in_the_list() -> None:
    assert [path.stem for path in WALKTHROUGHS] == sorted(REBUILT)
    text = (INCIDENTS / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(([^)]+)\.md\)", text)) >= REBUILT.keys()


@pytest.mark.parametrize("path", WALKTHROUGHS, ids=lambda path: path.stem)
def test_a_walkthrough_shows_what_its_commands_say(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(STEP.findall(text)) >= 3
    assert text == executed(text), "run `python -m tests.history.walkthroughs`"


FOUND = {
    "index-swap": {"row-removed": 2, "index-changed": 2, "row-pruned": 2},
    "retry-storm": {"conflict-storm": 1, "throttled": 1, "write-delayed": 1},
    "stuck-deletion": {"stuck-deletion": 1},
    "two-domains": {"domains-overlap": 1},
}


@pytest.mark.parametrize("name", REBUILT)
async def test_the_audit_names_what_happened_and_nothing_else(name: str) -> None:
    codes = [one.code for one in (await audited([INCIDENTS / f"{name}.audit.jsonl"])).findings]
    assert {code: codes.count(code) for code in codes} == FOUND[name]


async def test_the_swap_is_told_with_both_nodes_and_the_moment_and_our_rules_keep_both_indices() -> None:
    path = INCIDENTS / "index-swap.audit.jsonl"
    found = await audited([path])
    removed = [one for one in found.findings if one.code == "row-removed"]
    assert {one.node for one in removed} == {"gb200-07", "gb200-08"}
    assert {one.time_ms - found.begin_ms for one in removed} == {6169}
    outcome = await rerun(await imported([path]), rules_of("driver", ()), None, Until(), speed=None, show=[].append)
    assert [member[2] for member in outcome.recorded.changed] == ["gb200-07", "gb200-08"]
    assert {member[2]: indices for member, indices in outcome.replayed.indices.items()} == {
        "gb200-07": (0,),
        "gb200-08": (1,),
    }
