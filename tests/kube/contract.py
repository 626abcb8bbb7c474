"""The client port's contract: one suite for every server behind every adapter.

A subclass gives the fixture `client` (a KubeClient whose server serves nodes, pods and the CRDs of
resource.nvidia.com) and `watch_s`, a time within which the server sends a bookmark before it ends a watch.
All objects have names of their own, so the suite runs on a server that others use too.
"""

import uuid
from contextlib import aclosing

import msgspec
import pytest

from kube import names
from kube.client import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    KubeClient,
    NotFound,
    Resource,
    ResourceMissing,
    Selector,
)
from kube.envelopes import ListPage, Status, WatchEvent
from kube.objects import ComputeDomainClique, Node
from kube.status import from_status
from tests.kube.schema_contract import SchemaContract

NAMESPACE = "default"
LABEL = "contract.cliquelog.dev/run"


def node(name: str, labels: dict[str, str]) -> bytes:
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})


def clique(name: str, **metadata: object) -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": names.CDCS.api_version,
            "kind": names.CDCS.kind,
            "metadata": {"name": name, **metadata},
            "daemons": [{"nodeName": "n1", "ipAddress": "10.0.0.1", "cliqueID": "c.1", "index": 3, "status": "Ready"}],
        }
    )


def new_name() -> str:
    return f"contract-{uuid.uuid4().hex[:12]}"


def as_clique(body: bytes) -> ComputeDomainClique:
    return msgspec.json.decode(body, type=ComputeDomainClique)


async def nodes(client: KubeClient, count: int) -> Selector:
    """Create labelled nodes; the selector gives exactly these."""
    run = new_name()
    for number in range(count):
        await client.create(names.NODES, "", node(f"{run}-{number}", {LABEL: run}))
    return Selector(names.NODES, labels=f"{LABEL}={run}")


async def cliques(client: KubeClient, count: int) -> Selector:
    """Create labelled CDCs, which nobody else touches; the selector gives exactly these."""
    run = new_name()
    for number in range(count):
        await client.create(names.CDCS, NAMESPACE, clique(f"{run}-{number}", labels={LABEL: run}))
    return Selector(names.CDCS, labels=f"{LABEL}={run}")


async def names_of(client: KubeClient, selector: Selector) -> set[str]:
    page = msgspec.json.decode(await client.list(selector), type=ListPage[Node])
    return {item.metadata.name for item in page.items}


async def version_now(client: KubeClient, selector: Selector) -> str:
    return msgspec.json.decode(await client.list(selector), type=ListPage[Node]).metadata.version


async def events(client: KubeClient, selector: Selector, version: str, watch_s: float) -> list[WatchEvent]:
    """Watch until the server ends it."""
    async with aclosing(client.watch(selector, resource_version=version, timeout_s=watch_s)) as lines:
        return [msgspec.json.decode(line, type=WatchEvent) async for line in lines]


def told(seen: list[WatchEvent]) -> list[tuple[str, str]]:
    """Give type and object name of all events but bookmarks."""
    return [
        (event.type, msgspec.json.decode(event.object, type=ComputeDomainClique).metadata.name)
        for event in seen
        if event.type != "BOOKMARK"
    ]


class ClientContract(SchemaContract):
    """What every client and server must do."""

    async def test_a_list_in_pages_gives_each_object_once_and_one_resource_version(self, client: KubeClient) -> None:
        selector = await nodes(client, 5)
        pages = [msgspec.json.decode(await client.list(selector, limit=2), type=ListPage[Node])]
        while pages[-1].metadata.token:
            body = await client.list(selector, limit=2, token=pages[-1].metadata.token)
            pages.append(msgspec.json.decode(body, type=ListPage[Node]))
        assert [len(page.items) for page in pages] == [2, 2, 1]
        assert len({item.metadata.name for page in pages for item in page.items}) == 5
        assert len({page.metadata.version for page in pages}) == 1

    async def test_a_list_goes_on_as_of_its_first_page(self, client: KubeClient) -> None:
        selector = await nodes(client, 3)
        first = msgspec.json.decode(await client.list(selector, limit=1), type=ListPage[Node])
        last = max(await names_of(client, selector))
        uid = msgspec.json.decode(await client.get(names.NODES, "", last), type=Node).metadata.uid
        await client.delete(names.NODES, "", last, uid=uid)
        rest = msgspec.json.decode(await client.list(selector, token=first.metadata.token), type=ListPage[Node])
        assert last in {item.metadata.name for item in rest.items}
        assert last not in await names_of(client, selector)

    @pytest.mark.parametrize(
        ("labels", "expected"),
        [
            ("{label}", {"a", "b"}),
            ("{label}={run}", {"a"}),
            ("{label} in ({run},{run}-other)", {"a", "b"}),
            ("{label}!={run},{label}", {"b"}),
            ("!{label}", {"c"}),
        ],
    )
    async def test_a_label_selector_chooses(self, client: KubeClient, labels: str, expected: set[str]) -> None:
        run = new_name()
        label = f"contract.cliquelog.dev/{run}"
        await client.create(names.NODES, "", node(f"{run}-a", {label: run}))
        await client.create(names.NODES, "", node(f"{run}-b", {label: f"{run}-other"}))
        await client.create(names.NODES, "", node(f"{run}-c", {}))
        found = await names_of(client, Selector(names.NODES, labels=labels.format(label=label, run=run)))
        ours = {name for name in found if name.startswith(run)}
        assert ours == {f"{run}-{each}" for each in expected}

    async def test_a_namespace_chooses(self, client: KubeClient) -> None:
        name = new_name()
        await client.create(names.CDCS, NAMESPACE, clique(name))
        for namespace, expected in ((NAMESPACE, True), ("", True), ("elsewhere", False)):
            body = await client.list(Selector(names.CDCS, namespace=namespace))
            page = msgspec.json.decode(body, type=ListPage[ComputeDomainClique])
            assert (name in {item.metadata.name for item in page.items}) is expected

    async def test_a_malformed_selector_is_a_bad_request(self, client: KubeClient) -> None:
        with pytest.raises(BadRequest):
            await client.list(Selector(names.NODES, labels="in in in"))

    async def test_a_watch_gives_what_came_after_its_version_and_a_bookmark(
        self, client: KubeClient, watch_s: float
    ) -> None:
        selector = await cliques(client, 1)
        version = await version_now(client, selector)
        run = selector.labels.partition("=")[2]
        created = as_clique(await client.create(names.CDCS, NAMESPACE, clique(f"{run}-late", labels={LABEL: run})))
        patch = msgspec.json.encode({"metadata": {"annotations": {"contract": "yes"}}})
        await client.patch(names.CDCS, NAMESPACE, f"{run}-late", patch, kind="merge")
        await client.delete(names.CDCS, NAMESPACE, f"{run}-late", uid=created.metadata.uid)

        seen: list[WatchEvent] = []
        other = 0
        async with aclosing(client.watch(selector, resource_version=version, timeout_s=watch_s)) as lines:
            async for line in lines:
                seen.append(msgspec.json.decode(line, type=WatchEvent))
                if len(seen) == 3:  # a real server sends a bookmark only if something happened since the watch began
                    other = as_clique(
                        await client.create(names.CDCS, NAMESPACE, clique(new_name()))
                    ).metadata.resource_version

        late = f"{run}-late"
        assert told(seen) == [("ADDED", late), ("MODIFIED", late), ("DELETED", late)]
        versions = [msgspec.json.decode(event.object, type=dict)["metadata"]["resourceVersion"] for event in seen]
        assert [int(each) for each in versions] == sorted(int(each) for each in versions)
        assert seen[-1].type == "BOOKMARK"
        assert int(versions[-1]) >= other > 0, "it moves past what the selector leaves out"

    async def test_an_object_that_loses_its_label_is_deleted_for_who_watches_the_label(
        self, client: KubeClient, watch_s: float
    ) -> None:
        selector = await cliques(client, 1)
        version = await version_now(client, selector)
        name = next(iter(await names_of(client, selector)))
        without = msgspec.json.encode({"metadata": {"labels": {LABEL: None}}})
        changed = as_clique(await client.patch(names.CDCS, NAMESPACE, name, without, kind="merge"))

        seen = await events(client, selector, version, watch_s)

        assert told(seen) == [("DELETED", name)]
        gone = as_clique(bytes(seen[0].object))
        assert LABEL in gone.metadata.labels, "the object is as it last matched"
        assert gone.metadata.resource_version == changed.metadata.resource_version, "at the version of the change"

    async def test_a_watch_from_a_version_that_is_not_in_the_history_is_expired(self, client: KubeClient) -> None:
        selector = await cliques(client, 1)
        error: ApiError
        try:
            seen = await events(client, selector, "1", 5)
        except ApiError as refused:
            error = refused
        else:
            assert [event.type for event in seen] == ["ERROR"]
            error = from_status(msgspec.json.decode(seen[0].object, type=Status), 500)
        assert isinstance(error, Expired)

    async def test_a_continue_token_that_is_not_known_is_refused(self, client: KubeClient) -> None:
        unknown = "bm90IGEgdG9rZW4"
        with pytest.raises((Expired, BadRequest)):
            await client.list(Selector(names.NODES), token=unknown)

    async def test_what_is_created_can_be_read(self, client: KubeClient) -> None:
        name = new_name()
        created = as_clique(await client.create(names.CDCS, NAMESPACE, clique(name, labels={"a": "b"})))
        assert as_clique(await client.get(names.CDCS, NAMESPACE, name)) == created
        assert created.metadata.uid
        assert created.metadata.labels == {"a": "b"}
        assert [(row.node_name, row.index) for row in created.daemons] == [("n1", 3)]

    async def test_a_name_that_is_taken_already_exists(self, client: KubeClient) -> None:
        name = new_name()
        await client.create(names.CDCS, NAMESPACE, clique(name))
        with pytest.raises(AlreadyExists):
            await client.create(names.CDCS, NAMESPACE, clique(name))

    async def test_an_object_that_does_not_exist_is_not_found(self, client: KubeClient) -> None:
        with pytest.raises(NotFound) as caught:
            await client.get(names.CDCS, NAMESPACE, new_name())
        assert not isinstance(caught.value, ResourceMissing)

    @pytest.mark.parametrize("group", [names.GROUP, "no.such.group"])
    async def test_a_kind_that_is_not_served_is_a_missing_resource(self, client: KubeClient, group: str) -> None:
        unknown = Resource(group, "v1beta1", "unknowns", "Unknown")
        with pytest.raises(ResourceMissing):
            await client.list(Selector(unknown))
        with pytest.raises(ResourceMissing):
            await events(client, Selector(unknown), "1", 1)

    async def test_a_merge_patch_with_the_right_version_is_carried_out(self, client: KubeClient) -> None:
        name = new_name()
        created = as_clique(await client.create(names.CDCS, NAMESPACE, clique(name, annotations={"a": "1", "b": "2"})))
        metadata = {"resourceVersion": created.metadata.version, "annotations": {"a": None, "c": "3"}}
        patch = msgspec.json.encode({"metadata": metadata, "daemons": []})
        patched = as_clique(await client.patch(names.CDCS, NAMESPACE, name, patch, kind="merge"))
        assert patched.metadata.annotations == {"b": "2", "c": "3"}
        assert patched.daemons == ()
        assert patched.metadata.resource_version > created.metadata.resource_version
        assert as_clique(await client.get(names.CDCS, NAMESPACE, name)) == patched

    async def test_a_merge_patch_with_another_version_conflicts_and_changes_nothing(self, client: KubeClient) -> None:
        name = new_name()
        created = as_clique(await client.create(names.CDCS, NAMESPACE, clique(name)))
        touch = msgspec.json.encode({"metadata": {"annotations": {"touched": "yes"}}})
        touched = as_clique(await client.patch(names.CDCS, NAMESPACE, name, touch, kind="merge"))
        stale = msgspec.json.encode({"metadata": {"resourceVersion": created.metadata.version}, "daemons": []})
        with pytest.raises(Conflict) as caught:
            await client.patch(names.CDCS, NAMESPACE, name, stale, kind="merge")
        assert not isinstance(caught.value, AlreadyExists)
        assert as_clique(await client.get(names.CDCS, NAMESPACE, name)) == touched

    async def test_a_write_that_changes_nothing_gets_no_new_version(self, client: KubeClient) -> None:
        name = new_name()
        created = as_clique(await client.create(names.CDCS, NAMESPACE, clique(name)))
        same = msgspec.json.encode({"daemons": msgspec.to_builtins(created.daemons)})
        patched = as_clique(await client.patch(names.CDCS, NAMESPACE, name, same, kind="merge"))
        assert patched.metadata.version == created.metadata.version

    async def test_a_json_patch_whose_test_holds_is_carried_out(self, client: KubeClient) -> None:
        name = new_name()
        await client.create(names.CDCS, NAMESPACE, clique(name, labels={"x/y": "z"}))
        patch = [
            {"op": "test", "path": "/daemons/0/index", "value": 3},
            {"op": "replace", "path": "/daemons/0/index", "value": 4},
            {"op": "remove", "path": "/metadata/labels/x~1y"},
            {"op": "add", "path": "/daemons/-", "value": {"nodeName": "n2", "ipAddress": "", "cliqueID": "c.1"}},
        ]
        body = await client.patch(names.CDCS, NAMESPACE, name, msgspec.json.encode(patch), kind="json")
        patched = as_clique(body)
        assert [(row.node_name, row.index) for row in patched.daemons] == [("n1", 4), ("n2", None)]
        assert patched.metadata.labels == {}

    async def test_a_json_patch_whose_test_fails_is_refused_and_changes_nothing(self, client: KubeClient) -> None:
        name = new_name()
        created = as_clique(await client.create(names.CDCS, NAMESPACE, clique(name)))
        patch = [
            {"op": "replace", "path": "/daemons/0/index", "value": 4},
            {"op": "test", "path": "/daemons/0/nodeName", "value": "another"},
        ]
        with pytest.raises(BadRequest):
            await client.patch(names.CDCS, NAMESPACE, name, msgspec.json.encode(patch), kind="json")
        assert as_clique(await client.get(names.CDCS, NAMESPACE, name)) == created

    async def test_a_put_from_the_newest_version_replaces(self, client: KubeClient) -> None:
        name = new_name()
        created = as_clique(await client.create(names.CDCS, NAMESPACE, clique(name, labels={"a": "b"})))
        body = clique(name, resourceVersion=created.metadata.version, labels={"c": "d"})
        replaced = as_clique(await client.replace(names.CDCS, NAMESPACE, name, body))
        assert replaced.metadata.labels == {"c": "d"}
        assert replaced.metadata.uid == created.metadata.uid

    async def test_a_put_from_an_older_version_conflicts(self, client: KubeClient) -> None:
        name = new_name()
        created = as_clique(await client.create(names.CDCS, NAMESPACE, clique(name)))
        await client.patch(names.CDCS, NAMESPACE, name, b'{"daemons":[]}', kind="merge")
        body = clique(name, resourceVersion=created.metadata.version)
        with pytest.raises(Conflict):
            await client.replace(names.CDCS, NAMESPACE, name, body)

    async def test_status_and_the_rest_are_written_apart(self, client: KubeClient) -> None:
        name = new_name()
        template = {"allocationMode": "Single", "resourceClaimTemplate": {"name": f"{name}-t"}}
        domain = {
            "apiVersion": names.COMPUTE_DOMAINS.api_version,
            "kind": "ComputeDomain",
            "metadata": {"name": name},
            "spec": {"channel": template},
            "status": {"status": "Ready"},
        }
        created = await client.create(names.COMPUTE_DOMAINS, NAMESPACE, msgspec.json.encode(domain))
        assert "status" not in msgspec.json.decode(created)
        both = msgspec.json.encode({"metadata": {"labels": {"a": "b"}}, "status": {"status": "Ready"}})
        body = await client.patch(names.COMPUTE_DOMAINS, NAMESPACE, name, both, kind="merge", subresource="status")
        assert msgspec.json.decode(body)["status"]["status"] == "Ready"
        assert "labels" not in msgspec.json.decode(body)["metadata"]
        other = msgspec.json.encode({"metadata": {"labels": {"a": "b"}}, "status": {"status": "NotReady"}})
        after = msgspec.json.decode(await client.patch(names.COMPUTE_DOMAINS, NAMESPACE, name, other, kind="merge"))
        assert (after["metadata"]["labels"], after["status"]["status"]) == ({"a": "b"}, "Ready")
        # A controller that a later test runs on this server would take it for a user's.
        await client.delete(names.COMPUTE_DOMAINS, NAMESPACE, name, uid=after["metadata"]["uid"])

    async def test_a_delete_with_another_uid_conflicts_and_deletes_nothing(self, client: KubeClient) -> None:
        name = new_name()
        created = as_clique(await client.create(names.CDCS, NAMESPACE, clique(name)))
        with pytest.raises(Conflict):
            await client.delete(names.CDCS, NAMESPACE, name, uid=str(uuid.uuid4()))
        await client.delete(names.CDCS, NAMESPACE, name, uid=created.metadata.uid)
        with pytest.raises(NotFound):
            await client.get(names.CDCS, NAMESPACE, name)
        with pytest.raises(NotFound):
            await client.delete(names.CDCS, NAMESPACE, name, uid=created.metadata.uid)

    async def test_a_finalizer_holds_the_object_until_it_is_taken_away(self, client: KubeClient) -> None:
        name = new_name()
        body = clique(name, finalizers=[names.FINALIZER])
        created = as_clique(await client.create(names.CDCS, NAMESPACE, body))
        await client.delete(names.CDCS, NAMESPACE, name, uid=created.metadata.uid)
        held = as_clique(await client.get(names.CDCS, NAMESPACE, name))
        assert held.metadata.terminating
        assert held.metadata.finalizers == (names.FINALIZER,)
        await client.patch(names.CDCS, NAMESPACE, name, b'{"metadata":{"finalizers":null}}', kind="merge")
        with pytest.raises(NotFound):
            await client.get(names.CDCS, NAMESPACE, name)
