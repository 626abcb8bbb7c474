"""Mutated inputs end quietly; `python -m tests.history.fuzz --files 20000` tries many more."""

from pathlib import Path

import pytest

from tests.history.fuzz import mutated, tried

FIRST = 20_000
"""Other seeds than those that the long run begins with."""


@pytest.mark.parametrize("part", range(4))
async def test_a_mutated_input_is_taken_or_refused_in_a_sentence(part: int, tmp_path: Path) -> None:
    path = tmp_path / "input"
    refusals = []
    for seed in range(FIRST + 30 * part, FIRST + 30 * (part + 1)):
        path.write_bytes(mutated(seed))
        refusals.append(await tried(path))
    assert refusals.count("") > len(refusals) // 3
    assert all(refusal == "" or str(path) in refusal for refusal in refusals)


@pytest.mark.parametrize("seed", [142, 7499, 7966])
async def test_what_once_failed_does_not_again(seed: int, tmp_path: Path) -> None:
    """142: a capture whose time is no time. 7499, 7966: a ComputeDomain whose UID is a NUL."""
    path = tmp_path / "input"
    path.write_bytes(mutated(seed))
    await tried(path)
