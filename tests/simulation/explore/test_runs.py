"""Runs: some seeds are right, one seed is one run, and no kind of fault is a word only."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from simulation.explore.arising import ARISING
from simulation.explore.faults import KINDS
from simulation.explore.run import Options, explore
from simulation.explore.scenario import SHAPES, TAKING_PART

GREEN = range(12)
HASHED = (3, 10)
"""A seed with our daemons and one with upstream's."""

PROGRAM = """
import json, sys
from simulation.explore.run import Options, explore
print(json.dumps([explore(int(seed), Options()).digest for seed in sys.argv[1:]]))
"""


@pytest.mark.parametrize("seed", GREEN)
def test_a_seed_is_right(seed: int) -> None:
    assert explore(seed, Options()).violations == []


def digests(hash_seed: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", PROGRAM, *map(str, HASHED)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def test_a_trace_is_the_same_whatever_python_hashes_with() -> None:
    one, other = digests("1"), digests("2")
    assert one == other
    assert len(set(one)) == len(HASHED)


def test_an_ablation_leaves_no_mark_on_the_next_run() -> None:
    before = explore(3, Options())
    assert explore(3, Options(ablation="hold")).digest != before.digest
    assert explore(3, Options()).digest == before.digest


def test_every_fault_of_a_run_is_of_a_kind_that_is_known() -> None:
    struck: Counter[str] = Counter()
    for seed in GREEN[:3]:
        struck.update(explore(seed, Options()).faults)
    assert struck
    assert struck.keys() <= {*KINDS, *TAKING_PART, *ARISING}


def test_what_is_left_out_does_not_strike() -> None:
    quiet = explore(3, Options(without=frozenset(KINDS), actions=frozenset()))
    assert quiet.violations == []
    assert quiet.faults.keys() <= set(SHAPES)
    assert quiet.actions == 0
