"""What a server must make of custom objects, by the CRDs in `deploy/crds`: a part of the client port's contract."""

import re
import uuid
from typing import Any

import msgspec
import pytest

from kube import names
from kube.client import BadRequest, KubeClient

NAMESPACE = "default"
Object = dict[str, Any]
ROW: Object = {"nodeName": "n1", "ipAddress": "10.0.0.1", "cliqueID": "c.1", "index": 3, "status": "Ready"}
SPEC: Object = {"channel": {"resourceClaimTemplate": {"name": "t"}}}


def without(thing: Object, field: str) -> Object:
    return {name: value for name, value in thing.items() if name != field}


def cdc(**fields: object) -> tuple[str, bytes]:
    name = f"contract-{uuid.uuid4().hex[:12]}"
    head = {"apiVersion": names.CDCS.api_version, "kind": names.CDCS.kind, "metadata": {"name": name}}
    return name, msgspec.json.encode(head | fields)


def domain(**fields: object) -> tuple[str, bytes]:
    name = f"contract-{uuid.uuid4().hex[:12]}"
    kind = names.COMPUTE_DOMAINS
    head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
    return name, msgspec.json.encode(head | fields)


async def created_domain(client: KubeClient, **fields: object) -> Object:
    _, body = domain(**fields)
    made: Object = msgspec.json.decode(await client.create(names.COMPUTE_DOMAINS, NAMESPACE, body))
    return made


async def delete_domain(client: KubeClient, made: Object) -> None:
    """Take it away: a controller that a later test runs on this server would take it for a user's."""
    metadata = made["metadata"]
    await client.delete(names.COMPUTE_DOMAINS, NAMESPACE, metadata["name"], uid=metadata["uid"])


def said(refused: pytest.ExceptionInfo[BadRequest], *words: str) -> bool:
    """Say whether it is the refusal of an invalid object, and names these."""
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    return all(re.search(re.escape(word), str(refused.value)) for word in words)


class SchemaContract:
    """What every server must refuse, drop and fill in."""

    @pytest.mark.parametrize(
        ("daemons", "words"),
        [
            ([without(ROW, "nodeName")], ("daemons[0].nodeName: Required value",)),
            ([ROW, without(ROW | {"nodeName": "n2"}, "ipAddress")], ("daemons[1].ipAddress: Required value",)),
            ([without(ROW, "cliqueID")], ("daemons[0].cliqueID: Required value",)),
            ([ROW | {"status": "Maybe"}], ("daemons[0].status: Unsupported value", '"Maybe"', '"Ready", "NotReady"')),
            ([ROW | {"status": ""}], ("daemons[0].status: Unsupported value",)),
            ([ROW | {"index": "3"}], ("daemons[0].index: Invalid value", "must be of type integer")),
            ([ROW | {"index": 1.5}], ("daemons[0].index", "integer")),
            ([ROW | {"nodeName": 7}], ("daemons[0].nodeName: Invalid value", "must be of type string")),
            ([ROW, ROW | {"index": 4}], ("daemons[1]: Duplicate value", '"nodeName":"n1"')),
            (ROW, ("daemons: Invalid value", "must be of type array")),
        ],
    )
    async def test_a_row_that_the_schema_forbids_is_refused(
        self, client: KubeClient, daemons: object, words: tuple[str, ...]
    ) -> None:
        _, body = cdc(daemons=daemons)
        with pytest.raises(BadRequest) as refused:
            await client.create(names.CDCS, NAMESPACE, body)
        assert said(refused, "ComputeDomainClique", *words)

    async def test_a_patch_that_makes_an_object_invalid_is_refused_and_changes_nothing(
        self, client: KubeClient
    ) -> None:
        name, body = cdc(daemons=[ROW])
        created = await client.create(names.CDCS, NAMESPACE, body)
        patch = msgspec.json.encode({"daemons": [without(ROW, "ipAddress")]})
        with pytest.raises(BadRequest) as refused:
            await client.patch(names.CDCS, NAMESPACE, name, patch, kind="merge")
        assert said(refused, name, "daemons[0].ipAddress: Required value")
        assert msgspec.json.decode(await client.get(names.CDCS, NAMESPACE, name)) == msgspec.json.decode(created)

    async def test_fields_that_the_schema_does_not_name_are_dropped_and_defaults_filled_in(
        self, client: KubeClient
    ) -> None:
        row = without(ROW, "status") | {"ipAddress": "", "colour": "green"}
        _, body = cdc(daemons=[row], spec={"a": 1})
        made = msgspec.json.decode(await client.create(names.CDCS, NAMESPACE, body))
        assert made["daemons"] == [ROW | {"ipAddress": "", "status": "NotReady"}]
        assert "spec" not in made

    async def test_a_write_of_nothing_but_unknown_fields_changes_nothing(self, client: KubeClient) -> None:
        name, body = cdc(daemons=[ROW])
        made = msgspec.json.decode(await client.create(names.CDCS, NAMESPACE, body))
        again = await client.patch(names.CDCS, NAMESPACE, name, b'{"spec":{"a":1}}', kind="merge")
        assert msgspec.json.decode(again)["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]

    async def test_a_domain_gets_its_defaults(self, client: KubeClient) -> None:
        made = await created_domain(client, spec=SPEC)
        await delete_domain(client, made)
        template = {"resourceClaimTemplate": {"name": "t"}}
        assert made["spec"] == {"numNodes": 0, "channel": {**template, "allocationMode": "Single"}}

    async def test_a_domain_without_a_spec_is_taken(self, client: KubeClient) -> None:
        made = await created_domain(client)
        await delete_domain(client, made)
        assert "spec" not in made

    @pytest.mark.parametrize(
        ("spec", "words"),
        [
            ({}, ("spec.channel: Required value",)),
            ({"channel": {}}, ("spec.channel.resourceClaimTemplate: Required value",)),
            ({"channel": {"resourceClaimTemplate": {}}}, ("spec.channel.resourceClaimTemplate.name: Required value",)),
            (SPEC | {"numNodes": -1}, ("spec.numNodes: Invalid value: -1", "greater than or equal to 0")),
            (
                {"channel": SPEC["channel"] | {"allocationMode": "Some"}},
                ("spec.channel.allocationMode: Unsupported value", '"Some"', '"All", "Single"'),
            ),
        ],
    )
    async def test_a_spec_that_the_schema_forbids_is_refused(
        self, client: KubeClient, spec: Object, words: tuple[str, ...]
    ) -> None:
        _, body = domain(spec=spec)
        with pytest.raises(BadRequest) as refused:
            await client.create(names.COMPUTE_DOMAINS, NAMESPACE, body)
        assert said(refused, "ComputeDomain.resource.nvidia.com", *words)

    async def test_a_domains_spec_cannot_be_changed(self, client: KubeClient) -> None:
        made = await created_domain(client, spec=SPEC)
        name = made["metadata"]["name"]
        try:
            with pytest.raises(BadRequest) as refused:
                await client.patch(names.COMPUTE_DOMAINS, NAMESPACE, name, b'{"spec":{"numNodes":2}}', kind="merge")
            assert said(refused, name, "spec: Invalid value", "A computeDomain.spec is immutable")
            touched = await client.patch(
                names.COMPUTE_DOMAINS, NAMESPACE, name, b'{"metadata":{"labels":{"a":"b"}}}', kind="merge"
            )
            assert msgspec.json.decode(touched)["spec"] == made["spec"]
        finally:
            await delete_domain(client, made)

    @pytest.mark.parametrize(
        ("status", "words"),
        [
            ({"status": ""}, ("status.status: Unsupported value",)),
            (
                {"status": "Ready", "nodes": [{"name": "n", "ipAddress": "10.0.0.1"}]},
                ("status.nodes[0].cliqueID: Required value",),
            ),
            (
                {"status": "Ready", "conditions": [{"type": "A", "status": "True", "reason": "", "message": ""}]},
                ("status.conditions[0].lastTransitionTime: Required value", "status.conditions[0].reason"),
            ),
        ],
    )
    async def test_a_status_that_the_schema_forbids_is_refused(
        self, client: KubeClient, status: Object, words: tuple[str, ...]
    ) -> None:
        made = await created_domain(client, spec=SPEC)
        name, patch = made["metadata"]["name"], msgspec.json.encode({"status": status})
        try:
            with pytest.raises(BadRequest) as refused:
                await client.patch(names.COMPUTE_DOMAINS, NAMESPACE, name, patch, kind="merge", subresource="status")
            assert said(refused, name, *words)
        finally:
            await delete_domain(client, made)

    async def test_a_status_of_nothing_is_not_ready(self, client: KubeClient) -> None:
        made = await created_domain(client, spec=SPEC)
        name, patch = made["metadata"]["name"], b'{"status":{"nodes":[]}}'
        body = await client.patch(names.COMPUTE_DOMAINS, NAMESPACE, name, patch, kind="merge", subresource="status")
        await delete_domain(client, made)
        assert msgspec.json.decode(body)["status"] == {"nodes": [], "status": "NotReady"}
