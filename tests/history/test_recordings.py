"""The recordings of the peer's own code: an audit of what was imported gives the truth that lies beside them."""

import random
from pathlib import Path

import pytest

from tests.history.histories import NAMES, audit_log, audited, facts, lines, truth, watches


@pytest.mark.parametrize("name", NAMES)
async def test_the_audit_log_gives_exactly_the_holdings_all_of_them_observed(name: str) -> None:
    found = await audited([audit_log(name)])
    assert facts(found) == facts(found, observed=True) == truth(name)


@pytest.mark.parametrize("name", NAMES)
async def test_the_kubectl_watches_give_exactly_the_holdings_and_say_that_times_are_inferred(name: str) -> None:
    found = await audited(watches(name))
    assert facts(found) == facts(found, observed=True) == truth(name)
    assert all(one.begin.dated for one in found.holdings)


@pytest.mark.parametrize("name", NAMES)
async def test_both_inputs_together_and_a_file_given_twice_change_nothing(name: str) -> None:
    found = await audited([audit_log(name), *watches(name), audit_log(name)])
    assert facts(found) == truth(name)
    alone = await audited([audit_log(name)])
    assert [one.message for one in found.findings] == [one.message for one in alone.findings]
    assert not any(one.begin.dated for one in found.holdings)


@pytest.mark.parametrize("paths", [[audit_log("peer-churn-54")], watches("peer-churn-54")], ids=["audit", "watch"])
async def test_the_four_nodes_that_came_back_with_another_index_are_named_and_the_rows_that_were_pruned(
    paths: list[Path],
) -> None:
    found = (await audited(paths)).findings
    assert {one.node: one.message for one in found if one.code == "index-not-kept"} == {
        "node-00004": "node node-00004 came back with index 7, and had 6 before",
        "node-00011": "node node-00011 came back with index 6, and had 7 before",
        "node-00020": "node node-00020 came back with index 9, and had 11 before",
        "node-00033": "node node-00033 came back with index 11, and had 9 before",
    }
    pruned = {one.node for one in found if one.code == "row-pruned"}
    assert pruned == {fact[1] for fact in truth("peer-churn-54") if fact[4] is not None}
    assert not any(one.severity == "error" for one in found)


async def test_the_conflicts_of_the_burst_are_counted() -> None:
    storms = [one for one in (await audited([audit_log("peer-burst-90")])).findings if one.code == "conflict-storm"]
    refused = [line for line in lines(audit_log("peer-burst-90")) if b'"code":409' in line]
    assert sum(int(one.message.split()[0]) for one in storms) == len(refused) == 823
    assert len({one.clique for one in storms}) == 5


async def test_who_removed_a_row_is_said_where_the_source_says_it() -> None:
    (one,) = [h for h in (await audited([audit_log("peer-churn-54")])).holdings if h.node == "node-00004" and h.end]
    assert one.end is not None
    assert one.end.cause == "row removed by system:serviceaccount:driver:compute-domain-controller"
    assert one.end.source.endswith("audit.jsonl.gz:860")


@pytest.mark.parametrize("kind", ["audit", "watch"])
@pytest.mark.parametrize("seed", range(10))
async def test_with_lines_missing_nothing_wrong_is_said_to_be_observed(kind: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    paths = [audit_log("peer-churn-54")] if kind == "audit" else watches("peer-churn-54")
    thinned = []
    for path in paths:
        thinned.append(tmp_path / path.name.removesuffix(".gz"))
        thinned[-1].write_bytes(b"".join(line for line in lines(path) if rng.random() >= 0.05))
    found = await audited(thinned)

    wrong = set(facts(found)) - set(truth("peer-churn-54"))
    assert not wrong & set(facts(found, observed=True))
    assert len(facts(found, observed=True)) < len(facts(found))
    assert any(one.code == "visibility-gap" for one in found.findings)
    for one in found.findings:
        if one.code in {"row-removed", "index-changed", "index-held-twice"}:
            assert one.inferred, one
