"""The manifests of deploy/, applied as a user would, in another namespace."""

from pathlib import Path
from typing import Any

import yaml

from tests.integration.controlplane.cluster import ControlPlane

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = "dra-driver-nvidia-gpu"
"""The driver's namespace, as the files have it."""
CRDS = ("computedomains.resource.nvidia.com", "computedomaincliques.resource.nvidia.com")


def read(relative: str, namespace: str) -> list[dict[str, Any]]:
    """Give the objects of a file of deploy/ with the driver's namespace replaced."""
    with (DEPLOY / relative).open() as content:
        return [_replace(document, namespace) for document in yaml.safe_load_all(content)]


def _replace(value: Any, namespace: str) -> Any:  # noqa: ANN401 - any part of a YAML document
    if isinstance(value, dict):
        return {key: _replace(item, namespace) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace(item, namespace) for item in value]
    return namespace if value == NAMESPACE else value


def apply(plane: ControlPlane, relative: str, namespace: str = NAMESPACE) -> None:
    """Apply a file of deploy/ as the administrator."""
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(read(relative, namespace)))


def install_cluster_scoped(plane: ControlPlane) -> None:
    """Apply what a cluster has once: both CRDs (and wait until they are served) and the device classes."""
    apply(plane, "crds/computedomains.yaml")
    apply(plane, "crds/computedomaincliques.yaml")
    apply(plane, "deviceclasses.yaml")
    plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *(f"crd/{name}" for name in CRDS))
    # A kind's first request may be answered with 429 while its storage starts. Have it now: tests count 429s.
    plane.kubectl("get", ",".join(CRDS), "--all-namespaces")
