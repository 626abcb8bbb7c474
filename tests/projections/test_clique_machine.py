"""Property tests of the clique's fold: any interleaving, duplication and staleness, two proposers, foreign writers."""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from eventlog import codec
from eventlog.events import DaemonPodGone, Row
from eventlog.partitioner import partition_for
from eventlog.record import Record
from projections.clique import CliqueState, member_names, members
from projections.index import propose
from projections.invariants import indices_are_kept, indices_are_unique, proposals_settle, write_is_sound
from projections.partition import PartitionFold, digest, restore
from tests.projections.world import CAPACITY, CLIQUE, DOMAINS, NODES, READER, SETTINGS, WATCHES, WRITER, Pod, World

nodes = st.sampled_from(NODES)
domains = st.sampled_from(DOMAINS)


class CliqueMachine(RuleBasedStateMachine):
    """The world acts, watches deliver late and twice, proposers lag, writes meet their precondition."""

    @initialize(calm=st.booleans())
    def start(self, calm: bool) -> None:
        """Begin a world; in a calm one nobody but daemons and controllers writes rows."""
        self.world = World()
        self.calm = calm
        self.checked = 0

    # --- the world ---

    @rule(node=nodes, domain=st.sampled_from(("", *DOMAINS)))
    def label(self, node: str, domain: str) -> None:
        self.world.label(node, domain)

    @rule(node=nodes, domain=domains)
    def create_pod(self, node: str, domain: str) -> None:
        if sum(p.node == node and p.domain == domain and not p.terminating for p in self.world.pods.values()) == 0:
            self.world.create_pod(node, domain)

    def pod(self, data: st.DataObject) -> Pod:
        return self.world.pods[data.draw(st.sampled_from(sorted(self.world.pods)))]

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), again=st.booleans())
    def give_ip(self, data: st.DataObject, again: bool) -> None:
        """Publish a pod's address: a new one, or the one that its node's daemons had before."""
        pod = self.pod(data)
        address = f"ip-{pod.node}" if again else f"ip-{self.world.tick()}"
        if not pod.ip and all(other.ip != address for other in self.world.pods.values()):
            pod.ip = address
            self.world.show(pod)

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), ready=st.booleans())
    def set_ready(self, data: st.DataObject, ready: bool) -> None:
        pod = self.pod(data)
        if pod.ready != ready and pod.ip and not pod.terminating:
            pod.ready = ready
            self.world.show(pod)

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def terminate(self, data: st.DataObject) -> None:
        pod = self.pod(data)
        if not pod.terminating:
            pod.terminating, pod.ready = True, False
            self.world.show(pod)

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def delete_pod(self, data: st.DataObject) -> None:
        self.world.delete_pod(self.pod(data))

    @precondition(lambda self: any(p.domain == WRITER and p.ip and not p.terminating for p in self.world.pods.values()))
    @rule(data=st.data())
    def daemon_writes_its_row(self, data: st.DataObject) -> None:
        writers = [p for p in self.world.pods.values() if p.domain == WRITER and p.ip and not p.terminating]
        self.world.daemon_writes_row(data.draw(st.sampled_from(sorted(writers, key=lambda p: p.uid))))

    @precondition(lambda self: WRITER in self.world.cdcs)
    @rule(node=nodes)
    def daemon_takes_its_row_out(self, node: str) -> None:
        _, _, rows, waiting = self.world.cdcs[WRITER]
        alive = any(p.node == node and p.domain == WRITER and not p.terminating for p in self.world.pods.values())
        if node in rows and not alive:
            self.world.put_cdc(WRITER, {name: row for name, row in rows.items() if name != node}, waiting)

    @precondition(lambda self: not self.calm)
    @rule(node=nodes, index=st.sampled_from((None, -1, 0, 1, 2, 3, 7)), own=st.booleans())
    def somebody_writes_any_row(self, node: str, index: int | None, own: bool) -> None:
        """Place a row whose daemon is known to nobody, with an index that may be taken, unknown or out of range."""
        self.world.disturbed = True
        _, _, rows, waiting = self.world.cdcs.get(WRITER, (0, "", {}, ()))
        pod = next((p for p in self.world.pods.values() if p.node == node and p.domain == WRITER and p.ip), None)
        address = pod.ip if own and pod is not None else f"ip-{self.world.tick()}"
        self.world.put_cdc(WRITER, {**rows, node: Row(node, address, index)}, waiting)

    @precondition(lambda self: self.world.cdcs)
    @rule(data=st.data())
    def delete_cdc(self, data: st.DataObject) -> None:
        self.world.delete_cdc(data.draw(st.sampled_from(sorted(self.world.cdcs))))

    # --- the controllers ---

    @rule(watch=st.sampled_from(WATCHES), count=st.integers(1, 8))
    def deliver(self, watch: str, count: int) -> None:
        for _ in range(count):
            self.world.deliver(watch)

    @precondition(lambda self: self.world.delivered)
    @rule(data=st.data())
    def deliver_again(self, data: st.DataObject) -> None:
        self.world.append(data.draw(st.sampled_from(self.world.delivered)))

    @rule(lag=st.integers(0, 12))
    def propose_from_an_earlier_state(self, lag: int) -> None:
        states = self.world.states
        for decision in propose(states[max(0, len(states) - 1 - lag)], SETTINGS):
            self.world.append(decision)

    @rule()
    def write(self) -> None:
        if propose(self.world.state, SETTINGS) == []:
            for effect in self.world.wanted():
                self.world.write(effect)

    # --- what holds ---

    @invariant()
    def indices_hold(self) -> None:
        states = self.world.states
        for before, after in zip(states[self.checked : -1], states[self.checked + 1 :], strict=True):
            assert indices_are_unique(after) == []
            assert indices_are_kept(before, after) == []
        self.checked = len(states) - 1
        for domain in self.world.state.domains:
            assert member_names(self.world.state, domain) == set(members(self.world.state, domain))
        assert proposals_settle(self.world.state, SETTINGS) == []
        if propose(self.world.state, SETTINGS) == []:
            for effect in self.world.wanted():
                assert write_is_sound(self.world.state, effect, CAPACITY) == []

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.settle()
        self.prove_orphans()
        self.settle()
        self.rows_tell_the_truth()
        self.replay_gives_the_same()

    @rule()
    def prove_orphans(self) -> None:
        """Tell what a complete list of pods proves of the rows that were seen before it began."""
        for domain, (_, _, rows, _) in sorted(self.world.cdcs.items()):
            listed = {(p.node, p.ip) for p in self.world.pods.values() if p.domain == domain}
            for node, row in sorted(rows.items()):
                if row.ip and not {(node, row.ip), (node, "")} & listed:
                    proof = DaemonPodGone(domain, node, "", self.world.tick(), inferred="a list", ip=row.ip)
                    self.world.delivered.append(proof)
                    self.world.append(proof)

    def settle(self) -> None:
        """Deliver all, propose and write until nothing is left to do; it must end."""
        world = self.world
        for _ in range(200):
            busy = any([world.deliver(watch) for watch in WATCHES])  # noqa: C419 - every watch delivers
            decisions = propose(world.state, SETTINGS)
            for decision in decisions:
                world.append(decision)
            written = [world.write(effect) for effect in world.wanted()] if not decisions else []
            self.indices_hold()
            if not busy and not decisions and not written:
                return
        raise AssertionError(f"does not settle: {world.wanted()} {propose(world.state, SETTINGS)}")

    def rows_tell_the_truth(self) -> None:
        for domain in DOMAINS:
            rows = self.world.cdcs[domain][2] if domain in self.world.cdcs else {}
            waiting = self.world.state.domains[domain].waiting
            living = {p.node: p for p in self.world.pods.values() if p.domain == domain and not p.terminating and p.ip}
            for node, pod in living.items():
                if node in waiting:
                    continue
                if any(p.node == node and p.domain == domain and not p.ip for p in self.world.pods.values()):
                    continue  # A row of another address may be this one's: nothing proves that it is not.
                assert rows[node].ip == pod.ip
                assert rows[node].status == ("Ready" if pod.ready else "NotReady")
            present = {p.node for p in self.world.pods.values() if p.domain == domain}
            if domain == READER:
                present |= {node for node, label in self.world.labels.items() if label == domain}
            assert set(rows) <= present
            assert (
                waiting == {} or sum(h.active for h in self.world.state.domains[domain].holdings.values()) == CAPACITY
            )

    def replay_gives_the_same(self) -> None:
        records = [to_record(offset, event) for offset, event in enumerate(self.world.log)]
        whole = PartitionFold()
        for record in records:
            whole.apply(record)
        assert whole.aggregates[CLIQUE] == self.world.state
        middle = len(records) // 2
        first = PartitionFold()
        for record in records[:middle]:
            first.apply(record)
        resumed = restore(first.snapshot())
        assert resumed is not None
        for record in records[max(0, middle - 3) :]:
            resumed.apply(record)
        assert resumed.head == whole.head
        assert digest([resumed]) == digest([whole])


def to_record(offset: int, event: msgspec.Struct) -> Record:
    entry = codec.entry(CLIQUE, event, timestamp_ms=offset, controller="test")
    partition = partition_for(CLIQUE, 1)
    return Record("test", partition, offset, entry.key, entry.timestamp_ms, entry.headers, entry.value)


TestCliqueMachine = CliqueMachine.TestCase
TestCliqueMachine.settings = settings(max_examples=250, stateful_step_count=50)


def test_an_empty_clique_proposes_nothing() -> None:
    assert propose(CliqueState(), SETTINGS) == []
