"""Where the API server is and as whom to speak to it: kubeconfig files, or the pod's service account.

The one file that imports kubernetes_asyncio, which knows all the ways to state credentials (tokens, token files,
client certificates, exec plugins). Before it reads a kubeconfig, the parts that people get wrong are checked here, so
that each mistake is one sentence with its mend.

Invariant: credentials are never older than `REFRESH_S` once the file that holds them has changed, and are read anew
when the server rejects them (failure case B18: tokens of service accounts rotate within the hour).

Proxies: only the kubeconfig's `proxy-url` counts. The environment's HTTPS_PROXY and .netrc do not: a proxy that was
meant for the Internet must not see a cluster's tokens, nor stand between us and a server on loopback.
"""

import asyncio
import binascii
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader
from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger

from kube import kubeconfig
from kube.client import ConfigError
from kube.clock import Clock

REFRESH_S = 60.0
"""Credentials are read anew when they are older. The kubelet rotates a projected token at 80 % of its life."""

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts a pod's token and the cluster's certificate authority."""


@dataclass(frozen=True)
class Access:
    """How to reach the API server. `authorization` is a header's value (secret) or None; `tls` is None for http."""

    server: str
    authorization: str | None = field(repr=False)
    tls: ssl.SSLContext | None
    tls_server_name: str | None
    proxy: str | None


class Loader(Protocol):
    """One way to come by a configuration."""

    async def load(self, *, rejected: bool) -> Configuration:
        """Read the configuration; `rejected` says that the server no longer accepts what was read last."""


class Credentials:
    """The current access, read anew on schedule and on rejection."""

    def __init__(self, loader: Loader, clock: Clock) -> None:
        """Nothing is read before the first use."""
        self._loader = loader
        self._clock = clock
        self._lock = asyncio.Lock()
        self._access: Access | None = None
        self._read_at = 0.0
        self._tls_files: tuple[bytes, ...] = ()

    async def current(self) -> Access:
        """Give an access that was read within `REFRESH_S`. Raises ConfigError."""
        async with self._lock:
            if self._access is None or self._clock.monotonic() - self._read_at >= REFRESH_S:
                return await self._read(rejected=False)
            return self._access

    async def renewed(self, rejected: Access) -> Access:
        """Give a newer access than the rejected one, or an equal one if there is none. Raises ConfigError."""
        async with self._lock:
            if self._access is not None and self._access != rejected:
                return self._access
            return await self._read(rejected=True)

    async def _read(self, *, rejected: bool) -> Access:
        try:
            configuration = await self._loader.load(rejected=rejected)
            token = configuration.api_key.get("BearerToken")
            access = Access(
                server=(configuration.host or "").rstrip("/"),
                authorization=token.strip() if token else None,
                tls=self._tls(configuration),
                tls_server_name=configuration.tls_server_name,
                proxy=configuration.proxy,
            )
        except (ConfigException, OSError, ValueError) as error:
            raise ConfigError(f"the cluster's credentials cannot be used: {_reason(error)}") from error
        if access != self._access:
            self._access = access
        self._read_at = self._clock.monotonic()
        return self._access

    def _tls(self, configuration: Configuration) -> ssl.SSLContext | None:
        """Give the TLS context; the same one while its files are the same, so that connections live on."""
        if not (configuration.host or "").startswith("https:"):
            return None
        paths = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        files = tuple(Path(path).read_bytes() if path else b"" for path in paths)
        if self._access is not None and self._access.tls is not None and files == self._tls_files:
            return self._access.tls
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self._tls_files = files
        return context


def _reason(error: Exception) -> str:
    """Say what is wrong with them, where the library that found it speaks of its own doings."""
    match error:
        case ssl.SSLError():
            return "a certificate or key is not PEM, or the key is of another certificate; correct the kubeconfig"
        case binascii.Error():
            return "what is to be base64 is not; correct the fields that end with -data in the kubeconfig"
        case OSError(strerror=str(what), filename=str(path)):
            return f"{path}: {what}"
        case _:
            return str(error)


class ServiceAccount:
    """The service account of the pod that we run in."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        """Take the variables KUBERNETES_SERVICE_HOST and _PORT, and the folder with the files token and ca.crt."""
        self._environ = dict(environ)
        self._folder = folder

    async def load(self, *, rejected: bool) -> Configuration:  # noqa: ARG002 - the token is read each time anyway
        """Read the token and the certificate authority. Raises ConfigException, OSError."""
        configuration = Configuration()
        token, authority = self._folder / "token", self._folder / "ca.crt"
        InClusterConfigLoader(str(token), str(authority), try_refresh_token=False, environ=self._environ).load_and_set(
            configuration
        )
        return configuration


class KubeConfig:
    """A context of a kubeconfig file, or of several files joined with `:` (the first that names a thing wins)."""

    def __init__(self, paths: str, context: str | None) -> None:
        """Nothing is read yet; `context` None means the files' current context."""
        self._paths = paths
        self._context = context
        self._configuration = Configuration()
        self._loader: KubeConfigLoader | None = None
        self._plugin = ""

    async def load(self, *, rejected: bool) -> Configuration:
        """Read the files anew, but run a credential plugin only if what it gave expired or was rejected.

        Raises ConfigError, ConfigException, OSError, ValueError.
        """
        if rejected or self._loader is None or not self._plugin:
            chosen = kubeconfig.choose(self._paths, self._context)
            merged = KubeConfigMerger(self._paths).config
            self._loader = KubeConfigLoader(config_dict=merged, config_base_path=None, active_context=chosen.context)
            self._plugin = chosen.plugin
            self._configuration = Configuration()
        elif self._plugin == "exec" and not hasattr(self._loader, "exec_plugin_expiry"):
            return self._configuration  # an exec plugin that states no expiry: good until the server rejects it
        await self._loader.load_and_set(self._configuration)
        return self._configuration
