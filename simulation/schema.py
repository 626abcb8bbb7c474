"""Schemas of custom resources, as the real server enforces those of a CustomResourceDefinition.

Problem: a fake that takes what the real server refuses, or keeps what that one drops, hides faults until a cluster
shows them (failure cases A36, A61). Invariant: an object that `admit` gives is pruned, defaulted and valid, in this
order, as in the real server; what is not, is refused with 422 and the field's path. It knows the keywords that our CRDs
use, and takes no CRD with others. Source of the rules and of the messages' form: k8s.io/apiextensions-apiserver.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import yaml

from kube.client import Resource
from simulation.patches import Json
from simulation.store import Object, Refused

TYPES: Mapping[str, tuple[type, ...]] = {"object": (dict,), "array": (list,), "string": (str,), "integer": (int,)}
KEYWORDS = frozenset(
    {
        *("type", "description", "properties", "required", "items", "enum", "default", "minimum", "minLength"),
        *("maxLength", "pattern", "format"),
        *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations"),
    }
)
IMMUTABLE = "self == oldSelf"
"""The one rule of the Common Expression Language that is known here."""
META = ("apiVersion", "kind", "metadata")
"""The parts of an object that no schema of ours judges."""


class Schemas:
    """The schemas of some kinds, from their CRDs."""

    def __init__(self, crds: Sequence[Object]) -> None:
        """Read decoded CRD manifests. ValueError for a keyword that is not known here."""
        self._schemas: dict[tuple[str, str, str], Object] = {}
        for crd in crds:
            spec = crd["spec"]
            for version in spec["versions"]:
                schema = version["schema"]["openAPIV3Schema"]
                _refuse_unknown(schema)
                self._schemas[spec["group"], version["name"], spec["names"]["plural"]] = schema

    def admit(self, resource: Resource, before: Object | None, after: Object) -> Object:
        """Give the object as it is stored; Refused 422. Kinds without a schema pass."""
        schema = self._schemas.get((resource.group, resource.version, resource.plural))
        if schema is None:
            return after
        stated = {name: each for name, each in after.items() if name not in META}
        body: Object = _default(schema, _prune(schema, stated, before), before)
        mistakes = [*_mistakes(schema, body, before, ""), *_changes(schema, before or {}, body, "")]
        if mistakes:
            name = f'{resource.kind}.{resource.group} "{after["metadata"]["name"]}"'
            told = mistakes[0] if len(mistakes) == 1 else f"[{', '.join(mistakes)}]"
            raise Refused(422, "Invalid", f"{name} is invalid: {told}")
        head: Object = {name: after[name] for name in META if name in after}
        return head | body


def load(folder: Path) -> Schemas:
    """Read all CRDs in a folder. OSError, ValueError."""
    return Schemas([yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml"))])


def _refuse_unknown(schema: Object) -> None:
    if unknown := schema.keys() - KEYWORDS:
        raise ValueError(f"the simulated server does not know the schema keyword {min(unknown)}; teach it")
    for rule in schema.get("x-kubernetes-validations", ()):
        if rule["rule"] != IMMUTABLE:
            raise ValueError(f"the simulated server does not know the rule {rule['rule']!r}; teach it")
    for part in [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]:
        _refuse_unknown(part)


def _beside(schema: Object, value: list[Json], before: Json) -> Iterator[tuple[Json, Json]]:
    """Give the items of a list, each with the one that had its place or its key before.

    What was stored is pruned, defaulted and valid, so what equals it need not be looked at: of the rows of a CDC few
    change in one write.
    """
    old = before if isinstance(before, list) else []
    keys = schema.get("x-kubernetes-list-map-keys", ())
    if not keys:
        yield from zip(value, [*old, *[None] * len(value)], strict=False)
        return
    by_key = {tuple(str(each.get(name)) for name in keys): each for each in old}
    for each in value:
        key = tuple(str(each.get(name)) for name in keys) if isinstance(each, dict) else ()
        yield each, by_key.get(key)


def _prune(schema: Object, value: Json, before: Json) -> Json:
    """Drop the fields that the schema does not name."""
    if value == before:
        return value
    if isinstance(value, dict) and "properties" in schema:
        old, known = before if isinstance(before, dict) else {}, schema["properties"]
        return {name: _prune(known[name], each, old.get(name)) for name, each in value.items() if name in known}
    if isinstance(value, list) and "items" in schema:
        return [_prune(schema["items"], each, old) for each, old in _beside(schema, value, before)]
    return value


def _default(schema: Object, value: Json, before: Json) -> Json:
    """Fill in the defaults of fields that are absent, or null where null is not allowed."""
    if value == before:
        return value
    if isinstance(value, dict) and "properties" in schema:
        old, parts = before if isinstance(before, dict) else {}, schema["properties"]
        filled = {name: _default(parts[name], each, old.get(name)) for name, each in value.items() if each is not None}
        nulls = {name: None for name, each in value.items() if each is None and "default" not in parts[name]}
        defaults = {name: part["default"] for name, part in parts.items() if name not in filled and "default" in part}
        return filled | nulls | defaults
    if isinstance(value, list) and "items" in schema:
        return [_default(schema["items"], each, old) for each, old in _beside(schema, value, before)]
    return value


def _mistakes(schema: Object, value: Json, before: Json, path: str) -> Iterator[str]:
    """Give what is wrong, each with its path."""
    kind = schema.get("type", "object")
    is_of_type = isinstance(value, TYPES[kind]) and not isinstance(value, bool)
    if not is_of_type:
        found = "null" if value is None else f'"{_type_of(value)}"'
        yield f"{path}: Invalid value: {found}: {path} in body must be of type {kind}: {found}"
    elif value == before:
        return
    elif kind == "object":
        yield from _mistakes_of_object(schema, value, before if isinstance(before, dict) else {}, path)
    elif kind == "array":
        for number, (each, old) in enumerate(_beside(schema, value, before)):
            yield from _mistakes(schema["items"], each, old, f"{path}[{number}]")
        yield from _duplicates(schema, value, path)
    else:
        yield from _mistakes_of_scalar(schema, value, path)


def _mistakes_of_object(schema: Object, value: Object, before: Object, path: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{_join(path, name)}: Required value"
    for name, part in schema.get("properties", {}).items():
        if name in value:
            yield from _mistakes(part, value[name], before.get(name), _join(path, name))


def _duplicates(schema: Object, value: list[Json], path: str) -> Iterator[str]:
    if schema.get("x-kubernetes-list-type") != "map":
        return
    seen = []
    for number, each in enumerate(value):
        key = (
            {name: each.get(name) for name in schema["x-kubernetes-list-map-keys"]} if isinstance(each, dict) else each
        )
        if key in seen:
            yield f"{path}[{number}]: Duplicate value: {json.dumps(key, separators=(',', ':'))}"
        seen.append(key)


def _mistakes_of_scalar(schema: Object, value: str | int, path: str) -> Iterator[str]:
    told = json.dumps(value)
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(json.dumps(each) for each in schema["enum"])
        yield f"{path}: Unsupported value: {told}: supported values: {supported}"
    if isinstance(value, int):
        if "minimum" in schema and value < schema["minimum"]:
            least = schema["minimum"]
            yield f"{path}: Invalid value: {told}: {path} in body should be greater than or equal to {least}"
        return
    if len(value) < schema.get("minLength", 0):
        least = schema["minLength"]
        yield f"{path}: Invalid value: {told}: {path} in body should be at least {least} chars long"
    if len(value) > schema.get("maxLength", len(value)):
        yield f"{path}: Too long: may not be more than {schema['maxLength']} bytes"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: Invalid value: {told}: {path} in body should match '{schema['pattern']}'"
    if schema.get("format") == "date-time" and not _is_time(value):
        yield f"{path}: Invalid value: {told}: {path} in body must be of type date-time: {told}"


def _changes(schema: Object, before: Json, after: Json, path: str) -> Iterator[str]:
    """Give what must not change and did; a field that comes or goes is not compared, as in the real server."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if before != after:
            yield f'{path}: Invalid value: "{_type_of(after)}": {rule["message"]}'
    for name, part in schema.get("properties", {}).items():
        if isinstance(before, dict) and isinstance(after, dict) and name in before and name in after:
            yield from _changes(part, before[name], after[name], _join(path, name))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _type_of(value: Json) -> str:
    for name, types in (("boolean", (bool,)), *TYPES.items(), ("number", (float,))):
        if isinstance(value, types):
            return name
    return "null"


def _is_time(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return "T" in value.upper()
