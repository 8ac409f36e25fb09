"""Hints about extras name what can be installed from where the package came."""

import json
import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from duet import installation
from duet.installation import DISTRIBUTION, install_command

ROOT = Path(__file__).parents[1]


class Noted:
    """An installed distribution, as its installer noted it."""

    def __init__(self, noted):
        self.noted = noted

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.noted


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """The package in site-packages, with what its installer noted."""

    def install(noted):
        monkeypatch.setattr(installation, "_PACKAGE", tmp_path / "site-packages" / "duet")
        monkeypatch.setattr(installation, "distribution", lambda name: Noted(noted))

    return install


def test_the_name_is_that_of_the_project():
    assert re.search(r'^name = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1] == DISTRIBUTION


def test_in_a_clone_it_is_the_clone(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    assert install_command("photos") == "pip install '.[photos]'"
    monkeypatch.chdir(tmp_path)
    assert install_command("photos") == f"pip install '{ROOT}[photos]'"


def test_from_a_registry_it_is_the_name(installed):
    installed(None)
    assert install_command("timm") == "pip install 'duet-ssl[timm]'"


def test_from_a_folder_it_is_the_folder(installed, tmp_path, monkeypatch):
    clone = tmp_path / "my clone"
    clone.mkdir()
    installed(json.dumps({"url": clone.as_uri(), "dir_info": {}}))
    assert install_command("photos") == f"pip install '{clone}[photos]'"
    monkeypatch.chdir(clone)
    assert install_command("photos") == "pip install '.[photos]'"
    monkeypatch.chdir(tmp_path)
    clone.rmdir()
    assert install_command("photos") == "pip install '.[photos]'"


def test_from_an_address_it_is_the_address(installed):
    installed(json.dumps({"url": "https://host.example/duet", "vcs_info": {"vcs": "git", "commit_id": "1"}}))
    assert install_command("export") == "pip install 'duet-ssl[export] @ git+https://host.example/duet'"
    installed(json.dumps({"url": "https://host.example/duet.whl", "archive_info": {}}))
    assert install_command("export") == "pip install 'duet-ssl[export] @ https://host.example/duet.whl'"


@pytest.mark.parametrize("noted", ["not JSON", "[]", "{}"])
def test_odd_notes_count_as_none(installed, noted):
    installed(noted)
    assert install_command("track") == "pip install 'duet-ssl[track]'"


def test_without_a_distribution_it_is_the_name(installed, monkeypatch):
    installed(None)

    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installation, "distribution", missing)
    assert install_command("track") == "pip install 'duet-ssl[track]'"
