"""The bugs that the search found do not come back, and the runs that found them could still tell."""

import pytest

from simulation.explore.ablations import ABLATIONS, MENDS
from simulation.explore.bugbase import TURNS, Bug, bugs, replay
from simulation.explore.story import rules

BUGS = bugs()


def test_there_are_bugs() -> None:
    assert BUGS


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS.keys())
def test_a_bug_stays_away_and_would_be_found_again(bug: Bug) -> None:
    assert bug.mend in ABLATIONS.keys() | MENDS.keys()
    assert replay(bug, mended=True).violations == []
    assert any(bug.rule in rules(replay(bug, mended=False, turn=turn)) for turn in range(TURNS))
