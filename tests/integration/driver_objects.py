"""What the driver's controller makes for a ComputeDomain, made by hand for tests of the control plane itself."""

from kube.names import (
    DAEMON_DEVICE_CLASS,
    DAEMON_PREFIX,
    DAEMON_SERVICE_ACCOUNT,
    DOMAIN_LABEL,
    DRIVER,
    TARGET_LABEL,
)
from tests.integration.api import Object


def compute_domain(name: str, **spec: object) -> Object:
    """Give a ComputeDomain whose claim template is called like itself, with a suffix."""
    channel = {"resourceClaimTemplate": {"name": f"{name}-channel"}}
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": name},
        "spec": {"channel": channel, **spec},
    }


def clique(name: str, rows: list[Object]) -> Object:
    """Give a ComputeDomainClique."""
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomainClique",
        "metadata": {"name": name},
        "daemons": rows,
    }


def daemon_claim_template(domain_uid: str) -> Object:
    """Give the claim template of a domain's daemons."""
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomainDaemonConfig",
        "domainID": domain_uid,
    }
    devices = {
        "requests": [{"name": "daemon", "exactly": {"deviceClassName": DAEMON_DEVICE_CLASS}}],
        "config": [{"requests": ["daemon"], "opaque": {"driver": DRIVER, "parameters": parameters}}],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": DAEMON_PREFIX + domain_uid,
            "labels": {DOMAIN_LABEL: domain_uid, TARGET_LABEL: "Daemon"},
        },
        "spec": {"spec": {"devices": devices}},
    }


def daemon_set(domain_uid: str) -> Object:
    """Give the DaemonSet that stands on the nodes which carry the domain's label."""
    labels = {DOMAIN_LABEL: domain_uid}
    container = {
        "name": "compute-domain-daemon",
        "image": "example.invalid/daemon",
        "resources": {"claims": [{"name": "compute-domain-daemon"}]},
    }
    pod = {
        "serviceAccountName": DAEMON_SERVICE_ACCOUNT,
        "nodeSelector": labels,
        "tolerations": [{"operator": "Exists"}],
        "resourceClaims": [{"name": "compute-domain-daemon", "resourceClaimTemplateName": DAEMON_PREFIX + domain_uid}],
        "containers": [container],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": DAEMON_PREFIX + domain_uid, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }
