"""Writes the table of findings from the rules: `python -m controller.history.findings_document docs/findings.md`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from projections.audit.finding import Rule
from projections.audit.findings import rules

BEGIN = "<!-- generated: make findings -->\n"
END = "<!-- end of what is generated -->\n"


def table(applied: Sequence[Rule]) -> str:
    """Give the rules as a table in Markdown."""
    lines = ["| code | severity | what | what to look at next |", "|---|---|---|---|"]
    lines += [f"| `{rule.code}` | {rule.severity} | {rule.title} | {rule.advice} |" for rule in applied]
    return "\n".join(lines) + "\n"


def renewed(document: str) -> str:
    """Give the document with the table as it is now. Raises ValueError if it has no place for one."""
    head, begin, rest = document.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the document lacks the lines {BEGIN!r} and {END!r}, between which the table stands")
    return head + begin + table(rules()) + end + tail


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
