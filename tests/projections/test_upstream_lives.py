"""A daemon of the upstream driver that starts anew may choose another index than it had; then that one stands."""

from eventlog.events import Row
from projections.effects import WriteCdc
from projections.index import propose
from tests.projections.world import SETTINGS, WATCHES, WRITER, Pod, World


class Clique(World):
    """A clique of upstream daemons with a controller that sees all at once."""

    def start_daemon(self, node: str, ip: str) -> Pod:
        """Let a pod run on the node and its daemon write its row, before the controller acts."""
        self.create_pod(node, WRITER)
        pod = next(pod for pod in self.pods.values() if pod.node == node)
        pod.ip = ip
        self.show(pod)
        self.daemon_writes_row(pod)
        return pod

    def end_daemon(self, pod: Pod) -> None:
        """Let the daemon take its row out and its pod go."""
        pod.terminating = True
        self.show(pod)
        _, _, rows, waiting = self.cdcs[WRITER]
        self.put_cdc(WRITER, {node: row for node, row in rows.items() if node != pod.node}, waiting)
        self.delete_pod(pod)

    def write(self, effect: WriteCdc) -> bool:
        """Send a write, which must leave the rows of living daemons at the index that they started with."""
        before = self.cdcs[effect.domain][2] if effect.domain in self.cdcs else {}
        rows = {row.node: row for row in effect.rows}
        for pod in self.living(effect.domain):
            row = before.get(pod.node)
            if row is not None and row.ip == pod.ip and row.index == pod.index is not None:
                assert rows[pod.node].index == pod.index, f"{pod.node}: {pod.index} became {rows[pod.node].index}"
        return super().write(effect)

    def act(self) -> None:
        """Let the controller see everything and act until it is content."""
        while any([self.deliver(watch) for watch in WATCHES]):  # noqa: C419 - every watch delivers
            pass
        for decision in propose(self.state, SETTINGS):
            self.append(decision)
        if any([self.write(effect) for effect in self.wanted()]):  # noqa: C419 - every write is sent
            self.act()

    def rows(self) -> dict[str, Row]:
        """Give the rows."""
        return self.cdcs[WRITER][2]

    def indices(self) -> dict[str, int | None]:
        """Give the index of each row."""
        return {node: row.index for node, row in self.rows().items()}


def test_the_index_that_a_daemon_chose_in_a_new_life_is_adopted_and_never_written_over() -> None:
    clique = Clique()
    for node in ("n0", "n1"):
        clique.label(node, WRITER)
    pods = [clique.start_daemon("n0", "ip-0"), clique.start_daemon("n1", "ip-1")]
    clique.act()
    assert clique.indices() == {"n0": 0, "n1": 1}
    for pod in pods:
        clique.end_daemon(pod)
    clique.act()
    clique.start_daemon("n1", "ip-2")
    clique.start_daemon("n0", "ip-3")
    assert clique.indices() == {"n1": 0, "n0": 1}, "each takes the lowest free one"
    clique.act()
    assert clique.indices() == {"n1": 0, "n0": 1}
    assert {node: row.ip for node, row in clique.rows().items()} == {"n1": "ip-2", "n0": "ip-3"}


def test_a_row_that_somebody_took_out_comes_back_with_its_index_while_its_daemon_lives() -> None:
    clique = Clique()
    for node in ("n0", "n1"):
        clique.label(node, WRITER)
        clique.start_daemon(node, f"ip-{node}")
    clique.act()
    clique.put_cdc(WRITER, {"n0": clique.rows()["n0"]})
    clique.act()
    assert clique.indices() == {"n0": 0, "n1": 1}


def test_a_node_whose_index_a_newcomer_took_before_its_daemon_came_back_gets_another() -> None:
    clique = Clique()
    for node in ("n0", "n1"):
        clique.label(node, WRITER)
    first = clique.start_daemon("n0", "ip-0")
    clique.act()
    clique.end_daemon(first)
    clique.start_daemon("n1", "ip-1")
    clique.act()
    clique.start_daemon("n0", "ip-2")
    clique.act()
    assert clique.indices() == {"n1": 0, "n0": 1}


def test_a_row_stays_while_the_events_of_its_pod_are_later_than_the_cliques() -> None:
    clique = Clique()
    clique.label("n0", WRITER)
    clique.label("n1", WRITER)
    clique.act()  # indices are assigned beforehand, by the nodes' labels
    seen = clique.start_daemon("n0", "ip-0")
    clique.act()
    late, clique.queues["pods"] = clique.queues["pods"], []
    clique.start_daemon("n1", "ip-1")
    late, clique.queues["pods"] = clique.queues["pods"], late
    seen.ready = True
    clique.show(seen)
    clique.act()
    assert set(clique.rows()) == {"n0", "n1"}
    assert clique.rows()["n0"].status == "Ready"
    clique.queues["pods"].extend(late)
    clique.act()
    assert clique.indices() == {"n0": 0, "n1": 1}
