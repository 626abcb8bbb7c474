"""Label selectors in the API's syntax: `k`, `!k`, `k=v`, `k==v`, `k!=v`, `k in (a,b)`, `k notin (a,b)`."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from kube.client import Selector

_TERM = re.compile(r"\s*(!?)\s*([\w./-]+)\s*(?:(==|=|!=)\s*([\w.-]*)|(in|notin)\s*\(([^)]*)\))?\s*(?:,|$)")

Term = Callable[[Mapping[str, str]], bool]


class BadSelector(ValueError):
    """The text is no label selector."""


class Matcher:
    """Tells whether an object matches a selector's namespace and labels."""

    def __init__(self, selector: Selector) -> None:
        """Parse the labels; BadSelector."""
        self._namespace = selector.namespace
        self._terms = parse(selector.labels)

    def __call__(self, thing: dict[str, Any]) -> bool:
        """Tell whether the object matches."""
        metadata = thing["metadata"]
        if self._namespace and metadata.get("namespace") != self._namespace:
            return False
        labels = metadata.get("labels") or {}
        return all(term(labels) for term in self._terms)


def parse(text: str) -> list[Term]:
    """Give the terms of a selector; all must hold."""
    terms: list[Term] = []
    at = 0
    while at < len(text):
        match = _TERM.match(text, at)
        if match is None:
            raise BadSelector(f"unable to parse the label selector {text!r}")
        at = match.end()
        negated, key, equality, value, membership, members = match.groups()
        if equality:
            terms.append(_in(key, {value}, wanted=equality != "!="))
        elif membership:
            terms.append(_in(key, {each.strip() for each in members.split(",")}, wanted=membership == "in"))
        else:
            terms.append(_exists(key, wanted=not negated))
    return terms


def _exists(key: str, *, wanted: bool) -> Term:
    return lambda labels: (key in labels) == wanted


def _in(key: str, values: set[str], *, wanted: bool) -> Term:
    """Give a term on the label's value; an absent label is in no set, so `!=` and `notin` hold for it."""
    return lambda labels: (labels.get(key) in values) == wanted
