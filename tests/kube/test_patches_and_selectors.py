"""The simulated server's patches and selectors do what their specifications say."""

import pytest

from simulation.patches import Json, PatchFailed, json_patch, merge_patch
from simulation.selectors import BadSelector, parse


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        # The cases of RFC 7386, appendix A.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_merges_objects_and_replaces_the_rest(target: Json, patch: Json, expected: Json) -> None:
    assert merge_patch(target, patch) == expected


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/b", "value": 1}, {"a": [1, 2], "b": 1}),
        ({"op": "add", "path": "/a", "value": 1}, {"a": 1}),
        ({"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1, 2]}),
        ({"op": "add", "path": "/a/2", "value": 3}, {"a": [1, 2, 3]}),
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3]}),
        ({"op": "replace", "path": "/a/1", "value": 5}, {"a": [1, 5]}),
        ({"op": "remove", "path": "/a/0"}, {"a": [2]}),
        ({"op": "remove", "path": "/a"}, {}),
        ({"op": "test", "path": "/a/0", "value": 1}, {"a": [1, 2]}),
        ({"op": "replace", "path": "", "value": {}}, {}),
    ],
)
def test_a_json_patch_changes_one_place(operation: dict[str, Json], expected: Json) -> None:
    target = {"a": [1, 2]}
    assert json_patch(target, [operation]) == expected
    assert target == {"a": [1, 2]}, "the target itself is not changed"


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a/0", "value": 2},
        {"op": "replace", "path": "/b", "value": 1},
        {"op": "remove", "path": "/b"},
        {"op": "remove", "path": "/a/2"},
        {"op": "add", "path": "/a/3", "value": 1},
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "remove", "path": "/a/-"},
        {"op": "add", "path": "/b/c", "value": 1},
        {"op": "add", "path": "/a/0/x", "value": 1},
        {"op": "move", "path": "/a", "from": "/b"},
    ],
)
def test_a_json_patch_that_does_not_fit_fails(operation: dict[str, Json]) -> None:
    with pytest.raises(PatchFailed):
        json_patch({"a": [1, 2]}, [operation])


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "b"}, True),
        ("a=", {"a": ""}, True),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a in (b, c)", {"a": "c"}, True),
        ("a notin (b,c)", {"a": "d"}, True),
        ("a notin (b,c)", {"a": "c"}, False),
        ("x.io/a in (b),c=d", {"x.io/a": "b", "c": "d"}, True),
        ("x.io/a in (b),c=d", {"x.io/a": "b"}, False),
    ],
)
def test_a_selector_matches(text: str, labels: dict[str, str], *, expected: bool) -> None:
    assert all(term(labels) for term in parse(text)) is expected


@pytest.mark.parametrize("text", ["a b", "a=b c", "in in in", "a in b", "=b", "a in (b", "!"])
def test_a_selector_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadSelector, match="unable to parse"):
        parse(text)
