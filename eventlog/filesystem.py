"""Which file system a path is on, and whether a SQLite log may live there.

SQLite's write-ahead log needs memory shared between processes and locks that work. Network file systems and the
pass-through ones of virtual machines give neither reliably; files on them were reported damaged within a minute.
Invariant: no log is opened on a file system of this kind.
"""

import re
from pathlib import Path

from eventlog.log import LogUnreadable

MOUNTINFO = Path("/proc/self/mountinfo")
"""Linux's table of mounts; see proc_pid_mountinfo(5). Other systems have none, and there nothing is refused."""

NETWORK_TYPES = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "fuseblk", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"}
)
"""Types of file systems that are refused; all types that begin with `fuse.` are too."""

_OCTAL = re.compile(r"\\([0-7]{3})")


def filesystem_type(path: Path, mountinfo: str) -> str:
    """Give the type of the file system that the absolute `path` is on, from a mount table's text; empty if unknown.

    Of mounts on the same point the last one is what a process sees.
    """
    found, longest = "", -1
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        fields = mount.split()
        if len(fields) < 5 or not source:
            continue
        point = Path(_OCTAL.sub(lambda octal: chr(int(octal[1], 8)), fields[4]))
        depth = len(point.parts)
        if depth >= longest and path.is_relative_to(point):
            found, longest = source.split()[0], depth
    return found


def refuse_network_filesystem(path: Path) -> None:
    """Raise LogUnreadable if `path` is on a file system that a SQLite log must not be on."""
    if not MOUNTINFO.exists():
        return
    kind = filesystem_type(path.resolve(), MOUNTINFO.read_text(errors="surrogateescape"))
    if kind in NETWORK_TYPES or kind.startswith("fuse."):
        raise LogUnreadable(
            f"{path} is on a file system of type {kind}, where SQLite files get damaged; "
            "put the log on a local disk or use a Kafka log"
        )
