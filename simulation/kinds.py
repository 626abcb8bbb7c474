"""The kinds of objects that a simulated cluster has."""

from kube import names

KINDS = (
    names.COMPUTE_DOMAINS,
    names.CDCS,
    names.NODES,
    names.PODS,
    names.EVENTS,
    names.DAEMON_SETS,
    names.CLAIM_TEMPLATES,
    names.LEASES,
)
WITH_STATUS = frozenset({names.COMPUTE_DOMAINS, names.NODES, names.PODS, names.DAEMON_SETS})
"""Those with a status subresource."""
