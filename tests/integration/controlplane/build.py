"""Build the control plane's two programs out of the Go modules, once for each state of their sources.

A cold build takes about nine minutes on two cores, so the result lives in a cache folder that is keyed by everything
that goes into it. The folder appears by one rename, when both programs are complete: an interrupted build leaves
nothing that looks finished. The tests only look; what is missing is built by `make controlplane`.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parent
KUBERNETES = "v1.37.2"
VERSION = "k8s.io/component-base/version"
FLAGS = (
    "-trimpath",
    "-buildvcs=false",
    "-ldflags",
    f"-s -w -X {VERSION}.gitVersion={KUBERNETES} -X {VERSION}.gitMajor=1 -X {VERSION}.gitMinor=37",
)
PACKAGES = {"controlplane": ".", "kubectl": "k8s.io/kubernetes/cmd/kubectl"}


class BuildError(Exception):
    """The programs cannot be built or found; the message says what to do."""


class Programs(NamedTuple):
    """Paths of the built programs."""

    controlplane: Path
    kubectl: Path


def cache_folder() -> Path:
    """Give the folder for the present sources, whether it exists or not."""
    digest = hashlib.sha256()
    for source in sorted([SOURCES / "go.mod", SOURCES / "go.sum", *SOURCES.glob("*.go")]):
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)}\n".encode() + content)
    digest.update("\n".join([*FLAGS, sys.platform, platform.machine()]).encode())
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cliquelog"
    root = Path(os.environ.get("CLIQUELOG_CACHE") or default)
    return root / f"controlplane-{digest.hexdigest()[:16]}"


def find_programs() -> Programs:
    """Give the programs of the present sources.

    Raises:
        BuildError: they have not been built.
    """
    folder = cache_folder()
    if not folder.is_dir():
        message = (
            f"The test control plane is not built for the present sources ({folder} is missing): run make controlplane."
        )
        raise BuildError(message)
    return Programs(*(folder / name for name in Programs._fields))


def check_go() -> None:
    """Raise BuildError unless a `go` is there that is as new as go.mod asks."""
    found = re.search(r"^go (\d+)\.(\d+)", (SOURCES / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        message = f"{SOURCES / 'go.mod'} has no `go` line."
        raise BuildError(message)
    wanted = (int(found[1]), int(found[2]))
    program = shutil.which("go")
    if program is None:
        message = f"Go is not installed: install Go {wanted[0]}.{wanted[1]} or newer to build the test control plane."
        raise BuildError(message)
    answer = subprocess.run([program, "env", "GOVERSION"], cwd="/", capture_output=True, text=True, check=True).stdout
    version = re.match(r"go(\d+)\.(\d+)", answer)
    if version is None or (int(version[1]), int(version[2])) < wanted:
        message = f"{program} is {answer.strip()}: the test control plane needs Go {wanted[0]}.{wanted[1]} or newer."
        raise BuildError(message)


def build() -> Programs:
    """Build what is missing and give the programs.

    Raises:
        BuildError: Go is missing or too old, or the compiler failed (it has said why on standard error).
    """
    folder = cache_folder()
    if folder.is_dir():
        print(f"control plane {KUBERNETES}: already built in {folder}")
        return find_programs()
    check_go()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=folder.parent) as temporary:
        for name, package in PACKAGES.items():
            compile_program(package, Path(temporary) / "done" / name)
        publish(Path(temporary) / "done", folder)
    print(f"control plane {KUBERNETES}: built in {folder}")
    return find_programs()


def compile_program(package: str, target: Path) -> None:
    """Compile one main package into `target`."""
    print(f"building {target.name} {KUBERNETES}; minutes on a cold Go build cache ...", flush=True)
    start = time.monotonic()
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    done = subprocess.run(
        ["go", "build", *FLAGS, "-o", str(target), package], cwd=SOURCES, env=environment, check=False
    )
    if done.returncode != 0:
        message = (
            f"go build of {target.name} in {SOURCES} failed with exit code {done.returncode}; its message is above."
        )
        raise BuildError(message)
    print(f"building {target.name}: {time.monotonic() - start:.0f} s", flush=True)


def publish(done: Path, folder: Path) -> None:
    """Rename the finished folder into place; another build of the same sources may have been quicker."""
    try:
        done.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def main() -> None:
    """Build, or end with one sentence and exit code 1."""
    try:
        build()
    except (BuildError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
