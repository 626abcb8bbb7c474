"""What of the schemas the contract does not show: keywords that are not known, and objects that change in part."""

from typing import Any

import pytest

from kube import names
from simulation.schema import Schemas, load
from simulation.store import Refused
from tests.kube.serving import CRDS

Object = dict[str, Any]
ROW: Object = {"nodeName": "n1", "ipAddress": "", "cliqueID": "c.1", "status": "NotReady"}


def crd(schema: Object) -> Object:
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    return {"spec": {"group": "g", "names": {"plural": "things"}, "versions": [version]}}


def cdc(*rows: Object) -> Object:
    return {"apiVersion": "a", "kind": "K", "metadata": {"name": "cdc"}, "daemons": list(rows)}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string", "nullable": True}}},
        {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        {"type": "object", "x-kubernetes-validations": [{"rule": "self.a > 1", "message": "no"}]},
    ],
)
def test_a_keyword_that_would_be_ignored_is_refused(schema: Object) -> None:
    with pytest.raises(ValueError, match="does not know"):
        Schemas([crd(schema)])


def test_a_kind_without_a_schema_passes() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"anything": None}}
    assert load(CRDS).admit(names.PODS, None, pod) is pod


def test_what_stays_as_it_was_stored_is_not_judged_again_and_what_changes_is() -> None:
    schemas = load(CRDS)
    before = schemas.admit(names.CDCS, None, cdc(ROW, ROW | {"nodeName": "n2"}))
    moved = ROW | {"nodeName": "n2", "ipAddress": "10.0.0.1", "colour": "green"}
    after = schemas.admit(names.CDCS, before, cdc(ROW | {"nodeName": "n3"}, moved, ROW))
    assert after["daemons"] == [ROW | {"nodeName": "n3"}, ROW | {"nodeName": "n2", "ipAddress": "10.0.0.1"}, ROW]
    with pytest.raises(Refused, match=r"daemons\[1\]\.status: Unsupported value"):
        schemas.admit(names.CDCS, before, cdc(ROW, ROW | {"nodeName": "n2", "status": "Perhaps"}))
    with pytest.raises(Refused, match=r"daemons\[1\]: Duplicate value"):
        schemas.admit(names.CDCS, before, cdc(ROW, ROW))


def test_a_boolean_is_no_integer_and_null_is_no_string() -> None:
    for row in (ROW | {"index": True}, ROW | {"ipAddress": None}):
        with pytest.raises(Refused, match="must be of type"):
            load(CRDS).admit(names.CDCS, None, cdc(row))
