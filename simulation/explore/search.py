"""The search: many seeds, on all processors, and what they add up to."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from simulation.explore.arising import ARISING
from simulation.explore.faults import KINDS
from simulation.explore.run import Options, Verdict, explore
from simulation.explore.scenario import TAKING_PART

CHUNK = 8


class Found(msgspec.Struct, frozen=True):
    """What a search came to. `slowest_s` is the longest time, in virtual seconds, until all was right."""

    seeds: int
    seconds: float
    faults: dict[str, int]
    failed: list[Verdict]
    slowest_s: float

    def never_struck(self) -> list[str]:
        """Give the kinds of faults, and of what else takes part, of which the search proves nothing."""
        return [kind for kind in (*KINDS, *TAKING_PART, *ARISING) if not self.faults.get(kind)]


def search(seeds: Sequence[int], options: Options, jobs: int, told: Callable[[int, int], None]) -> Found:
    """Explore the seeds in `jobs` processes; `told` hears how many are done, and how many of them failed."""
    began = time.perf_counter()
    faults: Counter[str] = Counter()
    failed: list[Verdict] = []
    slowest = 0.0
    for done, verdict in enumerate(_verdicts(seeds, options, jobs), 1):
        faults.update(verdict.faults)
        slowest = max(slowest, verdict.recovered_s)
        if verdict.violations:
            failed.append(verdict)
        told(done, len(failed))
    failed.sort(key=lambda verdict: verdict.seed)
    return Found(len(seeds), time.perf_counter() - began, dict(sorted(faults.items())), failed, slowest)


def _verdicts(seeds: Sequence[int], options: Options, jobs: int) -> Iterator[Verdict]:
    if jobs == 1 or len(seeds) == 1:
        yield from (_explore((seed, options)) for seed in seeds)
        return
    # A new interpreter each, as on a machine that never ran anything: nothing is inherited that a repetition lacks.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_explore, [(seed, options) for seed in seeds], chunksize=CHUNK)


def _explore(work: tuple[int, Options]) -> Verdict:
    verdict = explore(*work)
    # The timeline of a run that is right is of no use, and long.
    return verdict if verdict.violations else msgspec.structs.replace(verdict, lines=[])
