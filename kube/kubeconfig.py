"""Checks a kubeconfig before it is used, so that each usual mistake is one sentence with its mend."""

from pathlib import Path
from typing import TypeVar

import msgspec

from kube.client import ConfigError

SIZE_LIMIT = 16 * 1024 * 1024
"""Bytes of a kubeconfig file that are read."""


class Cluster(msgspec.Struct):
    """Where an API server is."""

    server: str = ""


class NamedCluster(msgspec.Struct):
    """An entry of `clusters`."""

    name: str
    cluster: Cluster


class Context(msgspec.Struct):
    """Which cluster, as whom."""

    cluster: str = ""
    user: str = ""


class NamedContext(msgspec.Struct):
    """An entry of `contexts`."""

    name: str
    context: Context


class NamedUser(msgspec.Struct):
    """An entry of `users`; what is in it is the client library's business."""

    name: str
    user: dict[str, object] | None = None


class KubeConfigFile(msgspec.Struct, rename="kebab"):
    """What is checked of a kubeconfig file."""

    current_context: str | None = None
    clusters: list[NamedCluster] | None = None
    contexts: list[NamedContext] | None = None
    users: list[NamedUser] | None = None


class Chosen(msgspec.Struct, frozen=True):
    """A context that exists and is complete; `plugin` is `exec` or `auth-provider` if a program gives credentials."""

    context: str
    plugin: str


Named = TypeVar("Named", NamedCluster, NamedContext, NamedUser)


def choose(paths: str, context: str | None) -> Chosen:
    """Give the context to use from the files (joined with `:`; of several, those that exist). Raises ConfigError."""
    present = [path for path in paths.split(":") if path and Path(path).expanduser().exists()]
    if not present:
        raise ConfigError(f"kubeconfig {paths}: there is no such file; give the path of one that exists")
    files = [_read(path) for path in present]
    name = context or next((file.current_context for file in files if file.current_context), None)
    if not name:
        raise ConfigError(f"kubeconfig {paths}: it has no current-context; name a context, or run kubectl use-context")
    what = f"kubeconfig {paths}: context {name!r}"
    contexts = [entry for file in files for entry in file.contexts or []]
    entry = _named(contexts, name)
    if entry is None:
        known = ", ".join(sorted({each.name for each in contexts})) or "none"
        raise ConfigError(f"{what} does not exist; there is: {known}")
    cluster = _named([each for file in files for each in file.clusters or []], entry.context.cluster)
    if cluster is None:
        raise ConfigError(f"{what} names the cluster {entry.context.cluster!r}, which is not in `clusters`")
    server = cluster.cluster.server
    if not server.startswith(("https://", "http://")):
        raise ConfigError(f"{what}: cluster {cluster.name!r} has the server {server!r}; it must be an http(s) URL")
    user = _named([each for file in files for each in file.users or []], entry.context.user)
    if user is None and (entry.context.user or server.startswith("https://")):
        raise ConfigError(f"{what} names the user {entry.context.user!r}, which is not in `users`")
    stated = (user.user if user else None) or {}
    return Chosen(context=name, plugin=next((each for each in ("auth-provider", "exec") if each in stated), ""))


def _read(path: str) -> KubeConfigFile:
    """Read and check one file."""
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
        if len(content) > SIZE_LIMIT:
            raise ConfigError(f"kubeconfig {path}: longer than {SIZE_LIMIT} bytes; is it a kubeconfig?")
        return msgspec.yaml.decode(content, type=KubeConfigFile)
    except OSError as error:
        raise ConfigError(f"kubeconfig {path}: cannot be read: {error.strerror}; check its permissions") from error
    except msgspec.DecodeError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"kubeconfig {path}: not a valid kubeconfig: {reason}; correct it") from error


def _named(entries: list[Named], name: str) -> Named | None:
    """Give the first entry of that name."""
    return next((entry for entry in entries if entry.name == name), None)
