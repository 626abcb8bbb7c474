"""`docs/findings.md` lists the rules as they are, and each module in their folder is one of them."""

from pathlib import Path

from controller.history.findings_document import renewed
from projections.audit import findings

DOCUMENT = Path(__file__).parents[2] / "docs" / "findings.md"


def test_the_table_is_current() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == renewed(text), "run `make findings`"


def test_every_module_is_one_rule_that_is_applied_and_named_for_its_code() -> None:
    folder = Path(findings.__file__).parent
    modules = {path.stem.replace("_", "-") for path in folder.glob("*.py") if path.stem != "__init__"}
    codes = [rule.code for rule in findings.rules()]
    assert sorted(codes) == sorted(modules)
    assert len(set(codes)) == len(codes)
