"""The line that stands over every measurement: the command and the machine."""

import os
import platform
import sqlite3
import sys
from pathlib import Path

from eventlog.filesystem import MOUNTINFO, filesystem_type


def describe(folder: Path) -> str:
    """Name the command, the processor, Python, SQLite and the file system that the files of the measurement are on."""
    command = " ".join(["python", *sys.orig_argv[1:]])
    kind = filesystem_type(folder.resolve(), MOUNTINFO.read_text()) if MOUNTINFO.exists() else "unknown"
    return (
        f"$ {command}\n{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {kind or 'unknown file system'}"
    )


def processor() -> str:
    """Give the processor's model, as Linux states it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
