"""What is said to somebody who lacks what the test broker needs; these need nothing themselves."""

from pathlib import Path

import pytest

from tests.integration.broker import build


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without programs and without a cache; gives the folder for programs."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("CLIQUELOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("CLIQUELOG_KAFKA", raising=False)
    return programs


def program(folder: Path, name: str, says: str = "", code: int = 0) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    path.chmod(0o755)


def test_without_the_jars_the_sentence_says_which_command_fetches_them(bare: Path) -> None:
    assert bare.is_dir()
    with pytest.raises(
        build.BuildError, match=r"is missing\): run make broker, or name a broker .* CLIQUELOG_KAFKA\.$"
    ):
        build.find_jars()


def test_without_java_or_maven_each_is_named(bare: Path, tmp_path: Path) -> None:
    with pytest.raises(build.BuildError, match=r"Java is not installed: install Java 17 or newer"):
        build.build()
    program(bare, "java", 'openjdk version "21.0.1" 2023-10-17')
    with pytest.raises(build.BuildError, match=r"Maven is not installed"):
        build.build()
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("version", ['openjdk version "11.0.2"', 'java version "1.8.0_402"', "something else"])
def test_an_old_java_is_told_with_both_versions(bare: Path, version: str) -> None:
    program(bare, "java", version)
    with pytest.raises(build.BuildError, match=r": the test broker needs Java 17 or newer\.$") as told:
        build.check_java()
    assert version in str(told.value)


def test_a_fetch_that_fails_leaves_nothing_that_looks_finished(bare: Path) -> None:
    program(bare, "java", 'openjdk version "17.0.1"')
    program(bare, "mvn", "no route to the registry", code=1)
    with pytest.raises(build.BuildError, match=r"failed with exit code 1; its message is above\.$"):
        build.build()
    assert list(build.cache_folder().parent.iterdir()) == []


def test_a_named_broker_needs_nothing_else(
    bare: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bare.is_dir()
    monkeypatch.setenv("CLIQUELOG_KAFKA", "kafka.example:9092")
    build.main()
    assert capsys.readouterr().out == "test broker: kafka.example:9092, as CLIQUELOG_KAFKA says\n"
