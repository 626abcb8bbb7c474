"""A SQLite log is never opened on a network file system."""

from pathlib import Path

import pytest

from eventlog import filesystem
from eventlog.log import LogUnreadable
from eventlog.sqlite import SqliteLog

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /data rw - nfs4 server:/export rw,vers=4.2
31 22 0:41 / /data/local rw shared:5 master:1 - xfs /dev/vdb rw
32 22 0:42 / /my\\040share rw - cifs //server/share rw
33 22 0:43 / /host rw - virtiofs host rw
34 22 0:44 / /buckets rw - fuse.s3fs s3fs rw
35 22 0:45 / /over rw - nfs server:/a rw
36 22 0:46 / /over rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/log.sqlite", "ext4"),
        ("/data/log.sqlite", "nfs4"),
        ("/database/log.sqlite", "ext4"),
        ("/data/local/log.sqlite", "xfs"),
        ("/my share/log.sqlite", "cifs"),
        ("/host/a/b/log.sqlite", "virtiofs"),
        ("/buckets/log.sqlite", "fuse.s3fs"),
        ("/over/log.sqlite", "tmpfs"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_mount_that_covers_it(path: str, kind: str) -> None:
    assert filesystem.filesystem_type(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse", "fuse.sshfs", "ceph"])
async def test_a_log_on_a_network_file_system_is_refused(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 0:1 / / rw - {kind} source rw\n")
    monkeypatch.setattr(filesystem, "MOUNTINFO", table)
    path = tmp_path / "log.sqlite"
    for opening in (SqliteLog.open(path), SqliteLog.open_readonly(path)):
        with pytest.raises(LogUnreadable, match=f"is on a file system of type {kind}, .*; put the log on a local disk"):
            await opening
    assert not path.exists()


async def test_a_network_file_system_behind_a_link_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "share")
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 0:1 / / rw - ext4 disk rw\n23 22 0:2 / {tmp_path}/share rw - nfs server:/x rw\n")
    monkeypatch.setattr(filesystem, "MOUNTINFO", table)
    with pytest.raises(LogUnreadable, match="of type nfs"):
        await SqliteLog.open(tmp_path / "link" / "log.sqlite")


def test_a_system_without_a_mount_table_refuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "MOUNTINFO", tmp_path / "absent")
    filesystem.refuse_network_filesystem(tmp_path / "log.sqlite")
