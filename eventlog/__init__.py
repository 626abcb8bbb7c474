"""The event log: records, events, their encoding, the log port and its adapters.

Everything that cliquelog knows is a record in a partition of this log; indices, readiness and history are folds over
it. The package knows nothing of Kubernetes clients: what it stores are facts about Kubernetes objects, already slim.
"""
