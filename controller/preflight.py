"""Preflight: what would never work is refused at the start, with one sentence, instead of tried for ever.

A missing CRD, a missing permission or a wrong address at the start is a mistake of the installation. The same found
later (a CRD deleted while we run) is waited out by the reflectors.
"""

from controller.config import RunConfig
from controller.exits import API, Failure
from kube import names
from kube.client import Forbidden, KubeClient, KubeError, ResourceMissing, Selector


async def preflight(client: KubeClient, config: RunConfig) -> None:
    """List one object of each kind that is watched.

    Raises Failure for what the installation lacks, and KubeError for what may pass.
    """
    first, second = config.selectors()
    for selector in [*first, *second]:
        try:
            await client.list(selector, limit=1)
        except (ResourceMissing, Forbidden) as error:
            raise Failure(_lacking(selector, error), API) from error


def _lacking(selector: Selector, error: KubeError) -> str:
    """Say what is missing and the mend."""
    resource = selector.resource
    kind = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    if isinstance(error, Forbidden):
        where = f" in namespace {selector.namespace}" if selector.namespace else " in all namespaces"
        allowed = where if resource.namespaced else ""
        return f"a permission is missing: to list {kind}{allowed} ({error}); apply the roles in deploy/rbac.yaml"
    if resource.group == names.GROUP:
        return f"the API server does not serve {kind} {resource.version}; install its CRD from deploy/crds/"
    return f"the API server does not serve {kind} {resource.version}; it takes Kubernetes 1.34 or newer"
