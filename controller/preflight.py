"""Preflight: what would never work is refused at the start, with one sentence, instead of tried for ever.

A missing CRD, a missing permission or a wrong address at the start is a mistake of the installation. The same found
later (a CRD deleted while we run) is waited out by the reflectors.
"""

from collections.abc import Iterable

from controller.exits import API, Failure
from kube import names
from kube.client import Forbidden, KubeError, ResourceMissing, Selector, ViewClient


async def preflight(client: ViewClient, selectors: Iterable[Selector], roles: str) -> None:
    """List one object of each kind that is watched; `roles` is the file that grants the rights.

    Raises Failure for what the installation lacks, and KubeError for what may pass.
    """
    for selector in selectors:
        try:
            await client.list(selector, limit=1)
        except (ResourceMissing, Forbidden) as error:
            raise Failure(_lacking(selector, error, roles), API) from error


def _lacking(selector: Selector, error: KubeError, roles: str) -> str:
    """Say what is missing and the mend."""
    resource = selector.resource
    kind = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    if isinstance(error, Forbidden):
        where = f" in namespace {selector.namespace}" if selector.namespace else " in all namespaces"
        allowed = where if resource.namespaced else ""
        return f"a permission is missing: to list {kind}{allowed} ({error}); apply the roles in {roles}"
    if resource.group == names.GROUP:
        return f"the API server does not serve {kind} {resource.version}; install its CRD from deploy/crds/"
    return f"the API server does not serve {kind} {resource.version}; it takes Kubernetes 1.34 or newer"
