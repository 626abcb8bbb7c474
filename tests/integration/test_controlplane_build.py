"""What is said to somebody who lacks what the test control plane needs; these need nothing themselves."""

import shutil
from pathlib import Path

import pytest

from tests.integration.controlplane import build


def test_without_built_programs_the_sentence_says_which_command_builds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIQUELOG_CACHE", str(tmp_path))
    with pytest.raises(build.BuildError, match=r"is missing\): run make controlplane\.$"):
        build.find_programs()


def test_without_go_the_sentence_names_the_version_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIQUELOG_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match=r"Go is not installed: install Go 1\.26 or newer"):
        build.build()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", ["go1.25.9", "go0.9", "devel"])
def test_with_an_old_go_the_sentence_names_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    stand_in = tmp_path / "go"
    stand_in.write_text(f"#!/bin/sh\necho {version}\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(build.BuildError, match=rf"is {version}: the test control plane needs Go 1\.26 or newer"):
        build.check_go()


def test_another_state_of_the_sources_has_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.cache_folder()
    copied = tmp_path / "sources"
    shutil.copytree(build.SOURCES, copied)
    monkeypatch.setattr(build, "SOURCES", copied)
    assert build.cache_folder() == before
    with (copied / "main.go").open("a") as source:
        source.write("// changed\n")
    assert build.cache_folder() != before
