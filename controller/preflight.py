"""Preflight: what would never work is refused at the start, with one sentence, instead of tried for ever.

A missing CRD, a missing permission or a wrong address at the start is a mistake of the installation. The same found
later (a CRD deleted while we run) is waited out by the reflectors.
"""

from controller.config import RunConfig
from kube.client import KubeClient, KubeError
from kube.reflector import explain


async def preflight(client: KubeClient, config: RunConfig) -> None:
    """List one object of each kind that is watched. Raises KubeError that names the kind and the mend."""
    first, second = config.selectors()
    for selector in [*first, *second]:
        try:
            await client.list(selector, limit=1)
        except KubeError as error:
            message = explain(selector, "list", error)
            raise _told(error, message) from error


def _told(error: KubeError, message: str) -> KubeError:
    """Give an error of the same class whose message names what was tried."""
    told = error
    told.args = (message,)
    return told
