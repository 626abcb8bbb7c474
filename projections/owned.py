"""What belongs to a ComputeDomain: the names of its objects, and whether its spec can be carried out."""

import re
from collections.abc import Iterator

from eventlog.events import ClaimTemplateSeen, DaemonSetSeen, DomainSeen
from projections.domain import DomainState
from projections.effects import AnyEffect, SetFinalizers, Target
from projections.settings import Settings

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""RFC 1123 subdomain, which the API server demands of the name of a ResourceClaimTemplate."""


def child_name(uid: str) -> str:
    """Give the name of the domain's DaemonSet, and of its daemons' claim template."""
    return f"computedomain-daemon-{uid}"


def template_at(state: DomainState, namespace: str, name: str) -> ClaimTemplateSeen | None:
    """Give the claim template at that place, whoever's it is."""
    return next((known for known in state.templates if (known.namespace, known.name) == (namespace, name)), None)


def spec_problem(domain: DomainSeen) -> str:
    """Say in one sentence why the spec cannot be carried out; empty if it can.

    The CRD lets an object through that has no spec, or a template name that no object can have; upstream's controller
    ends on the first and tries for ever on the second. The spec is immutable: only a new ComputeDomain mends it.
    """
    if not domain.template and not domain.mode:
        return "The ComputeDomain has no spec: delete it and create one with spec.channel.resourceClaimTemplate.name."
    if not domain.template:
        return "spec.channel.resourceClaimTemplate.name is empty: delete the ComputeDomain and create one that sets it."
    if len(domain.template) > 253 or not _SUBDOMAIN.fullmatch(domain.template):
        return (
            f"spec.channel.resourceClaimTemplate.name {domain.template[:80]!r} is not a valid object name (lower-case "
            "letters, digits, '-' and '.'): delete the ComputeDomain and create one with a valid name."
        )
    return ""


def release(
    resource: str, child: DaemonSetSeen | ClaimTemplateSeen, domain: str, settings: Settings
) -> Iterator[AnyEffect]:
    """Take our finalizer off a child that somebody, we or a user, has deleted; others' finalizers stay."""
    if child.terminating and settings.finalizer in child.finalizers:
        kept = tuple(name for name in child.finalizers if name != settings.finalizer)
        target = Target(resource, child.namespace, child.name)
        yield SetFinalizers(target, domain, child.resource_version, child.uid, kept)
