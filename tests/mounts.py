"""File systems that are full or read-only for one process tree: no permission bit stops root, these do."""

import subprocess
from pathlib import Path

SMALL = 'mount -t tmpfs -o size={size} cliquelog-test "$0" && exec "$@"'
FULL = 'mount -t tmpfs -o size=256k cliquelog-test "$0" && { head -c 1m /dev/zero >"$0/filler" 2>&-; exec "$@"; }'
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


def may_mount(folder: Path) -> list[str]:
    """Give the command prefix that grants the right to mount, for one process tree only; empty if nothing does."""
    for prefix in (["unshare", "--mount"], ["unshare", "--mount", "--user", "--map-root-user"]):
        trial = [*prefix, "mount", "-t", "tmpfs", "cliquelog-test", str(folder)]
        if subprocess.run(trial, capture_output=True, check=False).returncode == 0:
            return prefix
    return []


def mounted(script: str, folder: Path) -> tuple[str, ...]:
    """Give the prefix that runs a command with the folder mounted as the script says; empty without the right to."""
    prefix = may_mount(folder)
    return (*prefix, "sh", "-c", script, str(folder)) if prefix else ()
