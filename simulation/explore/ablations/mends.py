"""Mends of bugs that the search found, taken back: what the bugbase is checked with.

They are apart from the safeguards of `ABLATIONS`, since they are too special to be found in every 200 seeds: each has
its run in the bugbase instead.
"""

from collections.abc import Callable

from controller.engines import consumer
from controller.observing.normaliser import Normaliser
from projections import clique, lives, membership
from projections.clique import Membership, Pod
from simulation.explore.ablations.ablation import Ablation, Swap

LifeEnded = Callable[[Membership, Pod, int], Membership]


def _unless_another_runs(ended: LifeEnded) -> LifeEnded:
    def unless(there: Membership, pod: Pod, version: int) -> Membership:
        others = [one for one in there.pods.values() if one.node == pod.node and not one.terminating]
        return there if others else ended(there, pod, version)

    return unless


MENDS = (
    Ablation(
        "newest-pod",
        "of two pods on a node the one that was recorded last counts",
        "rule 3: another controller tells late of a pod that is long gone",
        (Swap(clique, "_rank", lambda _: lambda pod: (not pod.terminating, pod.since, pod.uid)),),
    ),
    Ablation(
        "version-of-a-live-read",
        "a live read of a node is not recorded if only its version is new",
        "rule 8: the write that waits for that version waits for ever",
        (Swap(Normaliser, "_count_version", lambda _: lambda _normaliser, _seen: None),),
    ),
    Ablation(
        "ended-life",
        "a daemon's end leaves its index shown, if the node's next pod is known already",
        "rule 5: the next daemon of upstream's driver chooses anew, and may get the same address",
        (Swap(lives, "_life_ended", _unless_another_runs),),
    ),
    Ablation(
        "outlived-life",
        "the end of a daemon is concluded from its own pod alone",
        "rule 5: nobody may have seen that pod",
        (Swap(lives, "_outlived", lambda _: lambda there, _pod: there),),
    ),
    Ablation(
        "row-taken-out",
        "an index stays shown to a daemon that took its row out and whose pod nobody saw",
        "rule 5: upstream's daemons choose anew where their row is missing",
        (Swap(membership, "_took_its_row_out", lambda _: lambda _there, _node, _address: False),),
    ),
    Ablation(
        "lost-cdc",
        "indices stay shown though the CDC that showed them is gone",
        "rule 5: upstream's daemons choose anew where their row is missing",
        (Swap(membership, "_without_their_cdc", lambda _: lambda there: there.holdings),),
    ),
    Ablation(
        "older-than-the-end",
        "a row counts for the pod that has its address now, however old it is",
        "rule 5: addresses are used again",
        (Swap(clique, "_may_be_newer", lambda _: lambda _there, _stone: True),),
    ),
    Ablation(
        "end-told-twice",
        "an end that is told again forgets which address the pod had",
        "rule 3: deliveries that come twice",
        (Swap(lives, "_address_buried", lambda _: lambda _tombstones, _uid: ""),),
    ),
    Ablation(
        "patient-restore",
        "a restore takes the first read without a record for the end of the log",
        "rule 9: what is not restored cannot be proved to be gone by the first lists",
        (Swap(consumer, "RESTORE_SILENT_READS_MAX", lambda _: 1),),
    ),
)
