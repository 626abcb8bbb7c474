"""The one place that speaks to aiokafka: connections, topics, producers, readers, and the words for what goes wrong.

Problem: the library's clients retry by themselves and tell their reasons to a logger only; a wrong password looks like
a broker that is away. Invariant: what leaves here is an error of `eventlog.log` in one sentence that names the mend, or
one of the few that `messages` defines for the modules around it.
"""

from eventlog.kafka.driver.cluster import Cluster, read_all
from eventlog.kafka.driver.messages import (
    MESSAGE_BYTES,
    InstanceTaken,
    Message,
    OutOfRange,
    SendRefused,
    SendUncertain,
    TopicDescription,
    changed_partitions,
)
from eventlog.kafka.driver.producer import Producer
from eventlog.kafka.driver.reader import Reader

__all__ = [
    "MESSAGE_BYTES",
    "Cluster",
    "InstanceTaken",
    "Message",
    "OutOfRange",
    "Producer",
    "Reader",
    "SendRefused",
    "SendUncertain",
    "TopicDescription",
    "changed_partitions",
    "read_all",
]
