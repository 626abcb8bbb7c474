"""A tiny model of the API around one ComputeDomain: it keeps the objects, carries effects out and folds what it shows.

Deletion is Kubernetes': an object with finalizers is marked and goes with the last of them. `pass_time` does what the
others in the cluster do: the DaemonSet controller and the kubelets end the pods whose DaemonSet or node label is gone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from eventlog.events import (
    AnyEvent,
    CdcGone,
    CdcSeen,
    ClaimTemplateGone,
    ClaimTemplateSeen,
    DaemonPodGone,
    DaemonPodSeen,
    DaemonSetGone,
    DaemonSetSeen,
    DomainGone,
    DomainSeen,
    NodeGone,
    NodeSeen,
    Row,
)
from projections.domain import DomainState, apply_domain
from projections.effects import (
    AnyEffect,
    CreateClaimTemplate,
    CreateDaemonSet,
    DeleteObject,
    PostEvent,
    SetFinalizers,
    Target,
    UnlabelNode,
    WriteStatus,
)
from projections.lifecycle import domain_effects
from projections.settings import Settings

UID = "7f2c1f86-6f0b-4b5c-9a55-0d0f3a6c1e11"
CHILD = f"computedomain-daemon-{UID}"
FINALIZER = "resource.nvidia.com/computeDomain"
DRIVER = "driver"
SETTINGS = Settings(DRIVER)

DOMAIN = Target("computedomains", "team", "train")
DAEMON_SET = Target("daemonsets", DRIVER, CHILD)
DAEMON_TEMPLATE = Target("resourceclaimtemplates", DRIVER, CHILD)
WORKLOAD_TEMPLATE = Target("resourceclaimtemplates", "team", "train-channel")
CLIQUE = "cluster.1"
CDC = Target("computedomaincliques", DRIVER, f"{UID}.{CLIQUE}")

Seen = DomainSeen | DaemonSetSeen | ClaimTemplateSeen | CdcSeen | NodeSeen | DaemonPodSeen


def a_domain(**changes: object) -> DomainSeen:
    fields: dict[str, object] = {
        "uid": UID,
        "resource_version": 1,
        "namespace": "team",
        "name": "train",
        "template": "train-channel",
        "mode": "Single",
    }
    return msgspec.convert(fields | changes, DomainSeen)


def a_daemon_set(**changes: object) -> DaemonSetSeen:
    fields: dict[str, object] = {
        "domain": UID,
        "uid": f"ds-{DRIVER}",
        "resource_version": 0,
        "namespace": DRIVER,
        "name": CHILD,
        "finalizers": (FINALIZER,),
    }
    return msgspec.convert(fields | changes, DaemonSetSeen)


@dataclass
class World:
    """Objects by target; every change of one is folded into `state` at once, as a watch would show it."""

    settings: Settings = SETTINGS
    objects: dict[Target, Seen] = field(default_factory=dict)
    state: DomainState = field(default_factory=DomainState)
    version: int = 100
    posted: dict[Target, PostEvent] = field(default_factory=dict)
    history: list[AnyEvent] = field(default_factory=list)
    keeps_conditions: bool = True

    def fold(self, event: AnyEvent) -> None:
        self.history.append(event)
        self.state = apply_domain(self.state, event)

    def show(self, target: Target, seen: Seen) -> None:
        """Create or change an object, under the next resourceVersion."""
        self.version += 1
        self.objects[target] = replace(seen, resource_version=self.version)
        self.fold(self.objects[target])

    def remove(self, target: Target) -> None:
        self.version += 1
        self.fold(_gone(self.objects.pop(target), self.version))

    # --- what is put there ---

    def put_domain(self, **changes: object) -> None:
        self.show(DOMAIN, a_domain(**changes))

    def change_domain(self, **changes: object) -> None:
        self.show(DOMAIN, replace(self.objects[DOMAIN], **changes))

    def put_daemon_set(
        self, namespace: str = DRIVER, *, terminating: bool = False, others: Iterable[str] = (), uid: str = ""
    ) -> None:
        seen = a_daemon_set(
            uid=uid or f"ds-{namespace}",
            namespace=namespace,
            terminating=terminating,
            finalizers=(FINALIZER, *others),
        )
        self.show(Target("daemonsets", namespace, CHILD), seen)

    def put_template(
        self,
        target: Target,
        *,
        owned: bool = True,
        terminating: bool = False,
        others: Iterable[str] = (),
        uid: str = "",
    ) -> None:
        purpose = "Workload" if target == WORKLOAD_TEMPLATE else "Daemon"
        seen = ClaimTemplateSeen(
            UID,
            purpose,
            uid or f"rct-{target.namespace}-{target.name}",
            0,
            target.namespace,
            target.name,
            owned=owned,
            terminating=terminating,
            finalizers=(FINALIZER, *others) if owned else tuple(others),
        )
        self.show(target, seen)

    def put_node(self, name: str, clique: str = CLIQUE) -> None:
        self.show(Target("nodes", "", name), NodeSeen(name, f"node-{name}", 0, clique, UID))

    def put_cdc(
        self,
        rows: Iterable[Row] = (),
        waiting: Iterable[str] = (),
        clique: str = CLIQUE,
        *,
        terminating: bool = False,
    ) -> None:
        target = Target("computedomaincliques", DRIVER, f"{UID}.{clique}")
        uid = f"cdc-{clique}"
        seen = CdcSeen(UID, clique, DRIVER, target.name, uid, 0, tuple(rows), tuple(waiting), terminating=terminating)
        self.show(target, seen)

    def put_pod(self, node: str, clique: str = CLIQUE, **changes: object) -> None:
        fields: dict[str, object] = {"ip": f"ip-{node}", "ready": True} | changes
        name = f"daemon-{node}"
        seen = DaemonPodSeen(UID, node, DRIVER, name, f"pod-{node}", 0, clique)
        self.show(Target("pods", DRIVER, name), replace(seen, **fields))

    # --- what is done ---

    def effects(self) -> tuple[AnyEffect, ...]:
        effects = domain_effects(self.state, self.settings)
        targets = [effect.target for effect in effects]
        assert len(set(targets)) == len(targets), "two effects on one target"
        return effects

    def wanted(self) -> list[AnyEffect]:
        return [effect for effect in self.effects() if not isinstance(effect, PostEvent)]

    def carry_out(self) -> bool:
        """Carry out all effects that are wanted now; tell whether there was one besides Events."""
        effects = self.effects()
        for effect in effects:
            self.carry_out_one(effect)
        return any(not isinstance(effect, PostEvent) for effect in effects)

    def run_until_quiet(self, rounds: int = 30) -> None:
        for _ in range(rounds):
            acted = self.carry_out()
            passed = self.pass_time()
            if not (acted or passed):
                return
        raise AssertionError(f"still not quiet after {rounds} rounds: {self.effects()}")

    def pass_time(self) -> bool:
        """End what others end: pods without a DaemonSet or node label, CDCs that were marked for deletion."""
        with_daemons = any(isinstance(seen, DaemonSetSeen) for seen in self.objects.values())
        labelled = {seen.name for seen in self.objects.values() if isinstance(seen, NodeSeen)}
        ending = [
            target
            for target, seen in self.objects.items()
            if (isinstance(seen, DaemonPodSeen) and not (with_daemons and seen.node in labelled))
            or (isinstance(seen, CdcSeen) and seen.terminating)
        ]
        for target in ending:
            self.remove(target)
        return bool(ending)

    def carry_out_one(self, effect: AnyEffect) -> None:
        seen = self.objects.get(effect.target)
        assert effect.domain == UID
        if isinstance(effect, PostEvent):
            self.posted[effect.target] = effect
            return
        assert effect.resource_version == (seen.resource_version if seen else 0), "computed from an old version"
        if isinstance(effect, CreateDaemonSet):
            assert seen is None
            self.put_daemon_set(effect.target.namespace, uid=f"ds-{self.version}")
        elif isinstance(effect, CreateClaimTemplate):
            assert seen is None
            assert (effect.purpose == "Workload") == (effect.target == WORKLOAD_TEMPLATE)
            self.put_template(effect.target, uid=f"rct-{self.version}")
        elif isinstance(effect, UnlabelNode):
            assert isinstance(seen, NodeSeen)
            assert effect.uid == seen.uid
            self.remove(effect.target)
        else:
            assert isinstance(effect, DeleteObject | SetFinalizers | WriteStatus)
            assert seen is not None
            assert effect.uid == seen.uid
            self._change(effect, seen)

    def _change(self, effect: DeleteObject | SetFinalizers | WriteStatus, seen: Seen) -> None:
        if isinstance(effect, WriteStatus):
            conditions = effect.conditions if self.keeps_conditions else ()
            self.change_domain(status=effect.status, nodes=effect.nodes, conditions=conditions)
            return
        finalizers = effect.finalizers if isinstance(effect, SetFinalizers) else getattr(seen, "finalizers", ())
        ending = isinstance(effect, DeleteObject) or seen.terminating
        if ending and not finalizers:
            self.remove(effect.target)
        elif isinstance(effect, DeleteObject):
            self.show(effect.target, replace(seen, terminating=True))
        else:
            self.show(effect.target, replace(seen, finalizers=finalizers))


def _gone(seen: Seen, version: int) -> AnyEvent:
    match seen:
        case DomainSeen():
            return DomainGone(seen.uid, version)
        case DaemonSetSeen():
            return DaemonSetGone(seen.domain, seen.uid, version)
        case ClaimTemplateSeen():
            return ClaimTemplateGone(seen.domain, seen.target, seen.uid, version)
        case CdcSeen():
            return CdcGone(seen.domain, seen.clique, seen.uid, version)
        case NodeSeen():
            return NodeGone(seen.name, seen.uid, version, "unlabelled")
        case DaemonPodSeen():
            return DaemonPodGone(seen.domain, seen.node, seen.uid, version)
