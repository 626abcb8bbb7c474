"""Mends of bugs that the search found, taken back: what the bugbase is checked with.

They are apart from the safeguards of `ABLATIONS`, since they are too special to be found in every 200 seeds: each has
its run in the bugbase instead.
"""

from controller.normaliser import Normaliser
from projections import clique
from simulation.explore.ablations.ablation import Ablation, Swap

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
)
