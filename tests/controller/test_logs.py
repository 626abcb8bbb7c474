"""Logging, in a process of its own: it is global by nature."""

import json
import subprocess
import sys

PROGRAM = """
import logging, sys, structlog
from controller.logs import configure
configure(sys.argv[1], console=sys.argv[2] == "console", stream=sys.stderr)
log = structlog.get_logger()
log.debug("hidden")
log.info("hello", node="n0", token="abc", nested={"Authorization": "Bearer xyz", "kept": 1})
try:
    1 / 0
except ZeroDivisionError:
    log.exception("failed")
logging.getLogger("kubernetes_asyncio.client.rest").debug("response body: secret")
logging.getLogger("kubernetes_asyncio.client.rest").info("response headers: secret")
logging.getLogger("aiohttp").warning("from the library")
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False)


def test_each_line_is_json_on_standard_error_and_names_level_and_time() -> None:
    result = run("info", "json")
    assert result.stdout == ""
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert [(line["level"], line["event"]) for line in lines] == [
        ("info", "hello"),
        ("error", "failed"),
        ("warning", "from the library"),
    ]
    assert lines[0]["node"] == "n0"
    assert all(line["timestamp"].endswith("Z") for line in lines)
    assert "ZeroDivisionError" in lines[1]["exception"]


def test_values_of_keys_that_name_secrets_are_blotted_out() -> None:
    result = run("info", "json")
    assert "abc" not in result.stderr
    assert "xyz" not in result.stderr
    line = json.loads(result.stderr.splitlines()[0])
    assert (line["node"], line["nested"]["kept"]) == ("n0", 1)


def test_libraries_never_log_below_warning_whatever_the_level() -> None:
    stderr = run("debug", "json").stderr
    assert "hidden" in stderr
    assert "secret" not in stderr


def test_people_get_text() -> None:
    result = run("warning", "console")
    assert "hello" not in result.stderr
    assert "failed" in result.stderr
    assert "{" not in result.stderr.splitlines()[0]


def test_an_unknown_level_is_an_error_that_names_the_levels() -> None:
    result = run("loud", "json")
    assert "log level 'loud' is not one of debug, info, warning, error" in result.stderr
