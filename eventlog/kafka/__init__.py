"""The log in a Kafka topic: `KafkaLog` and `KafkaSnapshots`.

`place` and `settings` read what a user gives; `driver` alone speaks to the library. `topics` knows how the topics of a
log are set up, `form` how a record looks there, `sender` how an append ends. `log` and `snapshots` keep the ports'
promises.
"""

from eventlog.kafka.driver import InstanceTaken
from eventlog.kafka.log import KafkaLog
from eventlog.kafka.place import KafkaPlace, parse
from eventlog.kafka.settings import KafkaSettings
from eventlog.kafka.snapshots import KafkaSnapshots

__all__ = ["InstanceTaken", "KafkaLog", "KafkaPlace", "KafkaSettings", "KafkaSnapshots", "parse"]
