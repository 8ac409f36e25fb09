"""What duet installs: every dependency has a lower bound, and its licence is listed, installed or not."""

import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("tomllib", reason="the scripts of the development environment need Python 3.11")
ROOT = Path(__file__).parents[1]
LICENCES = runpy.run_path(str(ROOT / ".ci" / "licences.py"))
LOWEST = runpy.run_path(str(ROOT / ".ci" / "lowest.py"))
EXTRAS = ["track", "timm", "export", "explore", "photos", "cluster"]


def listed():
    """Package -> licence, as the page says."""
    text = (ROOT / "docs" / "licences.md").read_text()
    return dict(re.findall(r"^\| ([a-z0-9-]+) \| (.+?) \| [a-z]+ \|$", text, flags=re.MULTILINE))


def test_the_page_lists_what_is_locked_and_declared_and_nothing_else():
    found = listed()
    found.pop("package", None)
    assert list(found) == [name for name, _ in LICENCES["rows"]()]


def test_every_licence_is_known_and_lets_duet_be_used_by_anybody():
    for name, licence in listed().items():
        assert "not " not in licence, name
        assert not re.search(r"\b[AL]?GPL", licence), name


def test_every_dependency_has_a_lower_bound():
    for requirement in LOWEST["declared"](EXTRAS):
        kinds = {bound.operator for bound in requirement.specifier}
        assert kinds & {">=", "=="}, requirement


def test_an_extra_is_told_from_the_core():
    names = {requirement.name for requirement in LOWEST["declared"]([])}
    assert {"numpy", "pytest"} <= names
    assert not names & {"torch", "gradio", "duet-ssl", "ruff"}
