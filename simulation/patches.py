"""JSON merge patch (RFC 7386) and the part of JSON Patch (RFC 6902) that is used: add, replace, remove, test."""

from typing import Any

Json = Any
"""A decoded JSON value."""


class PatchFailed(Exception):
    """The patch cannot be applied to this value; the message says which operation."""


def merge_patch(target: Json, patch: Json) -> Json:
    """Give the target with the patch merged in; neither is changed."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Json, operations: list[dict[str, Json]]) -> Json:
    """Give the target with the operations applied in order, all or none. Raises PatchFailed."""
    for operation in operations:
        keys = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target = _apply(target, keys, operation)
    return target


def _apply(value: Json, keys: list[str], operation: dict[str, Json]) -> Json:
    if not keys:
        return _replaced(value, operation)
    if not isinstance(value, dict | list):
        raise PatchFailed(f"{operation['op']} {operation['path']}: there is nothing to step into")
    copy: Json = value.copy()
    head, rest = _key(copy, keys[0], operation), keys[1:]
    present = head in copy if isinstance(copy, dict) else 0 <= head < len(copy)
    if not rest and operation["op"] == "add":
        if isinstance(copy, dict):
            copy[head] = operation["value"]
        else:
            copy.insert(head, operation["value"])
    elif not present:
        raise PatchFailed(f"{operation['op']} {operation['path']}: there is no {keys[0]!r}")
    elif not rest and operation["op"] == "remove":
        del copy[head]
    else:
        copy[head] = _apply(copy[head], rest, operation)
    return copy


def _replaced(value: Json, operation: dict[str, Json]) -> Json:
    match operation["op"]:
        case "test" if value == operation["value"]:
            return value
        case "add" | "replace":
            return operation["value"]
        case other:
            raise PatchFailed(f"{other} {operation['path']} failed")


def _key(container: Json, key: str, operation: dict[str, Json]) -> Json:
    if isinstance(container, dict):
        return key
    if key == "-" and operation["op"] == "add":
        return len(container)
    if not key.isdecimal() or int(key) > len(container):
        raise PatchFailed(f"{operation['op']} {operation['path']}: {key!r} is no place in the list")
    return int(key)
