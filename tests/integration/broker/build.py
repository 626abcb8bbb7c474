"""Fetch what the test broker consists of: Apache Kafka's jars, from Maven, once for each state of pom.xml.

The jars live in a cache folder that is keyed by the pom. The folder appears by one rename, when all are there: an
interrupted fetch leaves nothing that looks finished. The tests only look; what is missing is fetched by `make broker`.
Nothing is fetched where `CLIQUELOG_KAFKA` names a broker that runs, or where Docker would run one (`broker.py`).
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.integration.controlplane.build import publish

POM = Path(__file__).parent / "pom.xml"
JAVA = 17
"""The oldest Java on which a broker of this version runs."""


class BuildError(Exception):
    """The broker cannot be fetched or found; the message says what to do."""


def cache_folder() -> Path:
    """Give the folder for the present pom, whether it exists or not."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cliquelog"
    root = Path(os.environ.get("CLIQUELOG_CACHE") or default)
    return root / f"broker-{hashlib.sha256(POM.read_bytes()).hexdigest()[:16]}"


def find_jars() -> Path:
    """Give the folder of the jars.

    Raises:
        BuildError: they have not been fetched, or there is no Java to run them.
    """
    folder = cache_folder()
    if not folder.is_dir():
        message = (
            f"The test broker is not there ({folder} is missing): run make broker, "
            "or name a broker that runs in CLIQUELOG_KAFKA."
        )
        raise BuildError(message)
    check_java()
    return folder


def check_java() -> None:
    """Raise BuildError unless a `java` is there that is new enough."""
    program = shutil.which("java")
    if program is None:
        message = f"Java is not installed: install Java {JAVA} or newer to run the test broker."
        raise BuildError(message)
    answer = subprocess.run([program, "-version"], capture_output=True, text=True, check=True).stderr
    version = re.search(r'version "(\d+)', answer)
    if version is None or int(version[1]) < JAVA:
        message = f"{program} is {answer.splitlines()[0]}: the test broker needs Java {JAVA} or newer."
        raise BuildError(message)


def has_docker() -> bool:
    """Tell whether a Docker daemon answers."""
    program = shutil.which("docker")
    if program is None:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run([program, "info"], capture_output=True, timeout=20, check=False).returncode == 0
    return False


def build() -> Path:
    """Fetch the jars if they are missing, and give their folder.

    Raises:
        BuildError: Java or Maven is missing, or Maven failed (it has said why on standard error).
    """
    folder = cache_folder()
    if folder.is_dir():
        print(f"test broker: already in {folder}")
        return find_jars()
    check_java()
    program = shutil.which("mvn")
    if program is None:
        message = "Maven is not installed: install Maven 3.6 or newer to fetch the test broker."
        raise BuildError(message)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as temporary:
        done = Path(temporary) / "done"
        print("fetching the test broker with Maven; half a minute when nothing is cached ...", flush=True)
        command = [program, "--quiet", "--batch-mode", "--file", str(POM), "dependency:copy-dependencies"]
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={done}"]
        if (code := subprocess.run([*command, *options], check=False).returncode) != 0:
            message = f"mvn dependency:copy-dependencies of {POM} failed with exit code {code}; its message is above."
            raise BuildError(message)
        publish(done, folder)
    print(f"test broker: fetched into {folder}")
    return find_jars()


def main() -> None:
    """Fetch, or end with one sentence and exit code 1."""
    if named := os.environ.get("CLIQUELOG_KAFKA"):
        print(f"test broker: {named}, as CLIQUELOG_KAFKA says")
        return
    if has_docker():
        print("test broker: a container, since Docker is here")
        return
    try:
        build()
    except (BuildError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
