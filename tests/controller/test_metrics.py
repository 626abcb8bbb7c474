"""The metrics and the page that documents them."""

import re
from pathlib import Path

from controller.metrics import Metrics


def used() -> Metrics:
    metrics = Metrics()
    metrics.request("pods", "get", "429", 0.1)
    metrics.request("pods", "get", "2xx", 0.1)
    metrics.appended("pod-seen", 1)
    metrics.folded(3, 10)
    metrics.inadmissible("index-assigned")
    metrics.undecodable(3)
    metrics.relist("pods", "start")
    metrics.partitions(8)
    metrics.rebalanced()
    metrics.restored(0.2)
    metrics.lag(3)
    metrics.other_groups(1)
    metrics.gap("pods")
    metrics.watch_rows(lambda: {"Ready": 17, "NotReady": 1})
    return metrics


def test_counts_come_out_as_they_went_in() -> None:
    lines = used().render().decode().splitlines()
    for line in (
        'cliquelog_requests_total{code="2xx",resource="pods",verb="get"} 1.0',
        'cliquelog_throttles_total{resource="pods",verb="get"} 1.0',
        'cliquelog_request_duration_seconds_count{resource="pods",verb="get"} 2.0',
        'cliquelog_records_appended_total{event="pod-seen"} 1.0',
        'cliquelog_records_folded_total{partition="3"} 10.0',
        'cliquelog_decisions_inadmissible_total{decision="index-assigned"} 1.0',
        'cliquelog_records_undecodable_total{partition="3"} 1.0',
        'cliquelog_relists_total{cause="start",resource="pods"} 1.0',
        'cliquelog_watch_gaps_total{resource="pods"} 1.0',
        'cliquelog_rows{status="Ready"} 17.0',
        'cliquelog_rows{status="NotReady"} 1.0',
        "cliquelog_leader 0.0",
    ):
        assert line in lines


def test_two_controllers_in_one_process_do_not_share_counts() -> None:
    one, two = used(), Metrics()
    assert b"cliquelog_rows{" in one.render()
    assert b"cliquelog_rows{" not in two.render()


def test_the_page_documents_every_metric_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(cliquelog_\w+)`", page, re.MULTILINE))
    types = re.findall(r"^# TYPE (cliquelog_\w+) (\w+)$", used().render().decode(), re.MULTILINE)
    served = {name for name, _ in types if not name.endswith("_created")}
    assert documented == served
