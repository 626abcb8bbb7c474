"""The measurements run and mean what they say. How fast they are is no matter of tests."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from bench import fold
from bench.__main__ import USUAL, main
from bench.tables import Table
from bench.workload import Shape, entries
from eventlog.codec import decode
from eventlog.sqlite import SqliteLog
from projections.buckets import values
from projections.clique import CliqueState
from projections.domain import DomainState
from projections.fold import Aggregate, apply

SHAPE = Shape(cliques=3, nodes=4)


def folded(records: int, seed: int = 1) -> dict[str, Aggregate]:
    states: dict[str, Aggregate] = {}
    for entry in entries(SHAPE, records, seed):
        states[entry.key] = apply(states.get(entry.key), entry.key, decode(entry))
    return states


def test_the_workload_folds_to_a_formed_domain_with_every_decision_admitted() -> None:
    states = folded(3000)
    cliques = [state for state in states.values() if isinstance(state, CliqueState)]
    (domain,) = [state for state in states.values() if isinstance(state, DomainState)]
    assert len(cliques) == SHAPE.cliques
    assert [state.inadmissible for state in cliques] == [0] * SHAPE.cliques
    held = [holding.index for state in cliques for one in state.domains.values() for holding in one.holdings.values()]
    assert sorted(held) == sorted(list(range(SHAPE.nodes)) * SHAPE.cliques)
    assert len(list(values(domain.cdcs))) == SHAPE.cliques
    assert domain.rows >= SHAPE.total - SHAPE.nodes


def test_equal_seeds_give_equal_logs_and_others_give_others() -> None:
    assert list(entries(SHAPE, 500, seed=4)) == list(entries(SHAPE, 500, seed=4))
    assert list(entries(SHAPE, 500, seed=4)) != list(entries(SHAPE, 500, seed=5))


async def test_the_fold_is_measured_over_all_records_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    await fold.fill(path, SHAPE, 1500)
    stages, types = await fold.measure(path)
    log = await SqliteLog.open_readonly(path)
    records = sum([await log.end_offset(partition) for partition in range(log.partitions)])
    await log.close()
    assert records == 1500
    assert [row[0] for row in stages.rows] == ["read", "decode", "hash chain", "apply", "whole: read and fold"]
    assert sum(int(row[1]) for row in types.rows) <= 1500


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, marks=pytest.mark.integration if part in {"kafka", "report"} else ())
        for part in [*USUAL, "report", "scale"]
    ],
)
def test_each_part_runs_and_prints_its_figures_as_json(part: str, tmp_path: Path) -> None:
    sizes = ["--cliques", "2", "--nodes", "3", "--fold-records", "400", "--restart-records", "400"]
    sizes += ["--formation-nodes", "90"]
    place = ["--snapshot-records", "30", "--seconds", "0.01", "--folder", str(tmp_path), "--json"]
    result = CliRunner().invoke(main, [part, *sizes, *place], catch_exceptions=False)
    assert result.exit_code == 0
    tables = msgspec.convert(msgspec.json.decode(result.output)["tables"], list[Table])
    assert tables
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
    assert list(tmp_path.iterdir()) == []
