"""The search and its command: what it counts, when it fails, and that a story is repeated by its own command."""

import re
import shlex

import msgspec
import pytest
from click.testing import CliRunner, Result

from simulation.explore import run as running
from simulation.explore.__main__ import JUDGED_FROM, is_judged, main
from simulation.explore.arising import ARISING
from simulation.explore.faults import KINDS
from simulation.explore.loop import Stuck
from simulation.explore.run import Options, explore, plan_of
from simulation.explore.scenario import TAKING_PART
from simulation.explore.search import Found, search


def said(*words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--jobs", "1"])


def test_a_search_adds_up_what_its_runs_met() -> None:
    heard: list[tuple[int, int]] = []
    found = search(range(3), Options(), 1, lambda done, failed: heard.append((done, failed)))
    assert heard == [(1, 0), (2, 0), (3, 0)]
    one_by_one = [explore(seed, Options()).faults for seed in range(3)]
    assert found.faults == {kind: sum(one.get(kind, 0) for one in one_by_one) for kind in found.faults}
    assert found.faults.keys() == {kind for one in one_by_one for kind in one}


def test_what_never_struck_is_named() -> None:
    met = dict.fromkeys((*KINDS, *TAKING_PART, *ARISING), 1)
    assert Found(1, 1.0, met, [], 0.0).never_struck() == []
    del met["clock jump"], met["workload: reboot"]
    assert Found(1, 1.0, met, [], 0.0).never_struck() == ["clock jump", "workload: reboot"]


@pytest.mark.parametrize(("seeds", "judged"), [(JUDGED_FROM - 1, False), (JUDGED_FROM, True)])
def test_a_long_search_must_have_met_everything(seeds: int, judged: bool) -> None:
    assert is_judged(Found(seeds, 1.0, {}, [], 0.0)) is judged


def test_a_search_that_is_right_says_what_it_proves_nothing_of() -> None:
    done = said("--seeds", "0..1", "--json")
    told = msgspec.json.decode(done.stdout)
    assert (done.exit_code, told["failed"], told["seeds"]) == (0, [], 2)
    assert set(told["never_struck"]) == {*KINDS, *TAKING_PART, *ARISING} - told["faults"].keys() != set()


def test_a_story_is_repeated_by_its_own_command() -> None:
    first = said("--seeds", "1", "--ablate", "snapshot-atomicity")
    assert first.exit_code == 1
    [command] = re.findall(r"^repeat with: \S+ -m simulation\.explore (.*)$", first.stdout, re.MULTILINE)
    second = said(*shlex.split(command))
    stories = [done.stdout[done.stdout.index("\nseed 1:") :] for done in (first, second)]
    assert stories[0] == stories[1]
    assert "trace " in stories[0]


@pytest.mark.parametrize(
    ("words", "mend"),
    [
        (("--seeds", "5..1"), "give the smaller seed first"),
        (("--seeds", "x"), "give it as 0..2000"),
        (("--seeds", "0..1", "--actions", "0"), "give one with --seeds"),
        (("--seeds", "0", "--actions", ""), "give places from 0"),
        (("--seeds", "0", "--actions", "999"), "give places from 0"),
        (("--seeds", "0", "--actions", "a"), "give places from 0"),
        (("--seeds", "0", "--without", "rain"), "is not one of"),
        (("--seeds", "0", "--ablate", "nothing"), "is not one of"),
    ],
)
def test_bad_input_is_answered_with_a_sentence(words: tuple[str, ...], mend: str) -> None:
    done = said(*words)
    assert done.exit_code == 2
    assert mend in done.output


def test_what_ends_a_run_is_a_violation_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> float:
        raise Stuck("it goes round in a circle")

    monkeypatch.setattr(running._Run, "_become_quiet", never)
    verdict = explore(3, Options())
    assert verdict.violations == ["run: Stuck('it goes round in a circle') ended it"]
    assert verdict.seed == 3
    assert len(verdict.lines) > 3


def test_a_seed_draws_its_plan_alone() -> None:
    assert plan_of(7) == plan_of(7) != plan_of(8)
