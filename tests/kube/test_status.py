"""One meaning is one error class, in whatever shape the server says it."""

import msgspec
import pytest

from kube import client
from kube.status import MESSAGE_LIMIT, refusal, seconds
from tests.kube.scripted import status


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (400, status(400, "BadRequest"), client.BadRequest),
        (422, status(422, "Invalid"), client.BadRequest),
        (405, b"method not allowed", client.BadRequest),
        (302, b"", client.BadRequest),
        (401, status(401, "Unauthorized"), client.Unauthorized),
        (403, status(403, "Forbidden"), client.Forbidden),
        (404, status(404, "NotFound", 'nodes "a" not found'), client.NotFound),
        (404, status(404, "NotFound", "the server could not find the requested resource"), client.ResourceMissing),
        (404, b"404 page not found\n", client.ResourceMissing),
        (409, status(409, "Conflict"), client.Conflict),
        (409, status(409, "AlreadyExists"), client.AlreadyExists),
        (410, status(410, "Expired"), client.Expired),
        (410, b"gone", client.Expired),
        (500, status(500, "InternalError", "too old resource version: 1 (2)"), client.Expired),
        (429, status(429, "TooManyRequests"), client.Throttled),
        (429, b"<html>slow down</html>", client.Throttled),
        (500, status(500, "InternalError"), client.ServerError),
        (504, status(504, "Timeout", "Too large resource version"), client.ServerError),
        (502, b"<html>bad gateway</html>", client.ServerError),
        (500, b'{"kind":"Status","code":"five hundred"}', client.ServerError),
        (500, b'{"some":"json"}', client.ServerError),
    ],
)
def test_an_answer_is_the_class_of_its_meaning(code: int, body: bytes, expected: type[client.ApiError]) -> None:
    error = refusal(code, body, None)
    assert type(error) is expected
    assert error.status == code
    assert f"(HTTP {code})" in str(error)


def test_what_a_server_says_is_quoted_up_to_a_limit() -> None:
    assert refusal(502, b"x" * 10_000, None).message == "x" * MESSAGE_LIMIT
    assert refusal(500, status(500, "InternalError", "x" * 10_000), None).message == "x" * MESSAGE_LIMIT
    assert refusal(502, b"", None).message == "the answer has no body"
    assert "\ufffd" in refusal(502, b"\xff", None).message


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ("30", 30.0),
        ("0", 0.0),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("Fri, 31 Dec 1999 23:59:59 GMT", None),
    ],
)
def test_retry_after_is_read_in_seconds(header: str | None, expected: float | None) -> None:
    assert seconds(header) == expected
    assert refusal(429, b"", header).retry_after_s == expected


def test_the_header_counts_before_the_body() -> None:
    body = status(429, "TooManyRequests", retryAfterSeconds=7)
    assert refusal(429, body, None).retry_after_s == 7.0
    assert refusal(429, body, "3").retry_after_s == 3.0
    assert refusal(429, msgspec.json.encode({"kind": "Status", "details": None}), None).retry_after_s is None
