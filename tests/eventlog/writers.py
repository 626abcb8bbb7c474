"""A program that starts writers, to be killed: each a process of its own, forked because that takes milliseconds.

It reads requests from its standard input, one JSON object a line, and answers each with one line:

    {"start": SEED, "log": PATH, "acks": FOLDER}  the PID of a writer that appends until it is killed
    {"wait": PID}                                 how the writer ended, as given by waitpid

A writer notes an append in a file `SEED` of the folder when the log has acknowledged it, as a line of JSON: positions
and the text that each record carries.
"""

import asyncio
import json
import os
import random
import sys
import traceback

from eventlog.codec import entry
from eventlog.events import IndexAssigned
from eventlog.sqlite import SqliteLog

APPENDERS = 3


async def write(seed: int, path: str, acks: int) -> None:
    """Append for ever, in several tasks at once; batches and sizes are the seed's."""
    log = await SqliteLog.open(path, partitions=4)
    chance = random.Random(seed)

    async def appender(task: int) -> None:
        number = 0
        while True:
            size = chance.randint(1, 8)
            causes = [
                f"{seed}/{task}/{number}/{place}/{size}/" + "x" * chance.choice([0, 50, 400, 3_000])
                for place in range(size)
            ]
            places = await log.append(
                [
                    entry(
                        f"clique.{chance.randrange(20)}",
                        IndexAssigned("domain", "node", 0, 18, cause=cause),
                        timestamp_ms=number,
                        controller=f"writer/{seed}",
                    )
                    for cause in causes
                ]
            )
            line = [[place.partition, place.offset, cause] for place, cause in zip(places, causes, strict=True)]
            os.write(acks, json.dumps(line).encode() + b"\n")
            number += 1

    await asyncio.gather(*(appender(task) for task in range(APPENDERS)))


def start(seed: int, path: str, acks: str) -> int:
    """Fork a writer and give its PID."""
    pid = os.fork()
    if pid:
        return pid
    try:
        asyncio.run(write(seed, path, os.open(f"{acks}/{seed}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)))
    except BaseException:  # noqa: BLE001 - said aloud, and the exit code is the test's to judge
        traceback.print_exc()
    finally:
        os._exit(1)


def main() -> None:
    """Serve requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitpid(request["wait"], 0)[1]
        else:
            answer = start(request["start"], request["log"], request["acks"])
        print(answer, flush=True)


if __name__ == "__main__":
    main()
