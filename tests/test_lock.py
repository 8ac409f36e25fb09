"""The locked versions: they fit pyproject.toml, and those for running are among those for developing."""

from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import duet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def locked(name):
    """The exact version of every package in a lock."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]
    pairs = [line.split("==") for line in lines]
    return {canonicalize_name(package): version for package, version in pairs}


def misses(lock, requirements):
    """The requirements that a lock does not fulfil."""
    for requirement in map(Requirement, requirements):
        version = lock.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            yield str(requirement)


def test_what_runs_is_developed_with():
    assert locked("requirements.lock").items() < locked("requirements-dev.lock").items()


def test_running_has_every_dependency():
    assert list(misses(locked("requirements.lock"), PROJECT["dependencies"])) == []


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"timm"}))  # timm would bring torchvision
def test_developing_has_every_extra(extra):
    lock = {**locked("requirements-dev.lock"), canonicalize_name(PROJECT["name"]): duet.__version__}
    assert list(misses(lock, EXTRAS[extra])) == []


def test_the_dev_extra_names_the_other_extras():
    named = [set(found.extras) for found in map(Requirement, EXTRAS["dev"]) if found.name == PROJECT["name"]]
    assert named == [EXTRAS.keys() - {"dev", "timm"}]


def test_a_missing_or_old_version_is_noticed():
    lock = {"torch": "2.5.0"}
    assert list(misses(lock, ["torch>=2.6", "numpy>=1.26"])) == ["torch>=2.6", "numpy>=1.26"]
