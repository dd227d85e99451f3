from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from drabridge.api import generate

ROOT = Path(__file__).parents[3]
NAME = "drabridge.io_extendedresourcepolicies.yaml"


def test_the_crds_of_the_repository_are_those_of_the_models() -> None:
    assert generate.stale(ROOT / "crds") == []


def test_what_is_written_is_fresh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--directory", str(tmp_path)]) == 0
    assert generate.main(["--directory", str(tmp_path), "--check"]) == 0
    assert capsys.readouterr().out == ""
    assert yaml.safe_load((tmp_path / NAME).read_text())["spec"]["names"]["shortNames"] == ["erp"]


def test_a_stale_file_is_shown_as_a_diff_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generate.main(["--directory", str(tmp_path)])
    changed = (tmp_path / NAME).read_text().replace("- erp\n", "- xrp\n")
    (tmp_path / NAME).write_text(changed)
    assert generate.main(["--directory", str(tmp_path), "--check"]) == 1
    shown = capsys.readouterr().out
    assert "-    - xrp\n" in shown
    assert "+    - erp\n" in shown
    assert (tmp_path / NAME).read_text() == changed


def test_a_missing_file_is_stale(tmp_path: Path) -> None:
    assert generate.main(["--directory", str(tmp_path), "--check"]) == 1


def test_a_wrong_directory_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        generate.main(["--directory", str(tmp_path / "nowhere")])
    assert "run this in the root of the repository" in capsys.readouterr().err
