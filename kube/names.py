"""Names, labels and kinds of the driver that cliquelog interoperates with, and our own few.

Source: the CRDs and constants of kubernetes-sigs/dra-driver-nvidia-gpu (main, August 2026).
"""

from kube.client import Resource

GROUP = "resource.nvidia.com"

COMPUTE_DOMAINS = Resource(GROUP, "v1beta1", "computedomains", "ComputeDomain")
CDCS = Resource(GROUP, "v1beta1", "computedomaincliques", "ComputeDomainClique")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
EVENTS = Resource("", "v1", "events", "Event")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
CLAIM_TEMPLATES = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")

DOMAIN_LABEL = "resource.nvidia.com/computeDomain"
"""On nodes, daemon pods, DaemonSets, claim templates and CDCs: the ComputeDomain's UID."""
CLIQUE_LABEL = "resource.nvidia.com/computeDomain.cliqueID"
"""On daemon pods and CDCs: the clique ID; present and empty on a pod whose node has no fabric."""
TARGET_LABEL = "resource.nvidia.com/computeDomainTarget"
"""On claim templates: `Daemon` or `Workload`."""
NODE_CLIQUE_LABEL = "nvidia.com/gpu.clique"
"""On nodes, optional: `<clusterUUID>.<cliqueNumber>`."""
FINALIZER = "resource.nvidia.com/computeDomain"
"""On ComputeDomains, their DaemonSets and claim templates."""

READER_LABEL = "cliquelog.dev/daemon"
"""Ours, on the pods of our DaemonSets: value `reader`, a daemon that reads its row and never writes one."""
POSITION_ANNOTATION = "cliquelog.dev/position"
"""Ours, on what we write: `<partition>/<offset>` of the last record that the write was computed from."""
WAITING_ANNOTATION = "cliquelog.dev/waiting"
"""Ours, on a CDC: the nodes that wait for a slot in a full clique, in line, joined by commas."""

DRIVER = "compute-domain.nvidia.com"
DAEMON_DEVICE_CLASS = "compute-domain-daemon.nvidia.com"
CHANNEL_DEVICE_CLASS = "compute-domain-default-channel.nvidia.com"
DAEMON_SERVICE_ACCOUNT = "compute-domain-daemon-service-account"
DAEMON_PREFIX = "computedomain-daemon-"
"""Before the UID: name of a domain's DaemonSet and of its daemon claim template."""
