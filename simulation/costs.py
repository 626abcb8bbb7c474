"""What requests cost a simulated API server, from measurements of a real one that served the peer's daemons.

Two sources, both of the peer's own code on kube-apiserver 1.37 (docs/strategies.md has the sums):

- An idle server took 6 to 8 ms for the PUT of a CDC, 3.2 to 4.2 ms for a pod's label and 1.6 to 3.4 ms for a pod's
  creation, IP or readiness (tenth percentiles of recorded audit logs); in the mean a PUT took 11 ms for the server and
  16 ms for the daemon.
- The processor time of API server, etcd and daemons, in runs that had some to spare, is 0.15 cores for the idle server
  and 68 to 94 ms for each node. About 38 ms of that are the node's requests at the costs above. Each of its two writes
  is delivered to some 16 watchers in the mean, so a delivery takes 0.9 to 1.7 ms of a core, at both ends together.
"""

import msgspec


class Costs(msgspec.Struct, frozen=True):
    """Seconds of a core that the server takes for a request, or for the delivery of a change to one watcher.

    `clique_s`: a write of a CDC; `pod_s`: a request on a pod, or one that opens a watch; `kubelet_s`: a pod's creation,
    IP or readiness; `client_s`: what a request takes longer for who sends it, half before the server and half after.
    """

    clique_s: float = 0.008
    pod_s: float = 0.004
    kubelet_s: float = 0.003
    delivery_s: float = 0.0012
    client_s: float = 0.005
