"""The rooms of the package: imports go downward only, and each library is at home in few of them."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "duet"

# Lowest first. A room may import rooms of a lower level, and itself; rooms of one level never import each other.
LEVELS = [
    {"synonym", "installation"},
    {"error", "domain", "unit", "discovery", "allocator", "progress", "interruption"},
    {"file", "lock", "pixels", "plugin", "device", "figure"},
    {"groups", "representation", "objectives"},
    {"networks", "metrics"},
    {"methods", "data", "callback"},
    {"model"},
    {"evaluation", "training"},
    {"application", "study"},
    {"paper"},
    {"report", "explorer", "sklearn"},
    {"cli"},
    {"__main__"},
]
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}
# Libraries that only some rooms may import. What an `if TYPE_CHECKING` names is never loaded, and is not looked at.
AT_HOME = {
    "lightning": {"training", "callback"},
    "pytorch_lightning": set(),
    "torchvision": set(),
    "matplotlib": {"figure", "evaluation", "study", "paper", "report"},
    "gradio": {"explorer"},
    "jinja2": {"explorer", "report"},
    "ray": {"study"},
}
SHARED_BY_METHODS = ("method", "extra", "Method", "Views", "Parts", "Represented", "register_method", "check_weight")
CYCLIC = 45
"""How often the package may ask whether something is cyclic: a Domain knows what follows from it."""


def modules():
    return sorted(p for p in PACKAGE.rglob("*.py"))


def room_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def executed(node):
    """The nodes of a tree but for those under `if TYPE_CHECKING`, also inside functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).split(".")[-1] == "TYPE_CHECKING":
            for other in child.orelse:
                yield other
                yield from executed(other)
            continue
        yield child
        yield from executed(child)


def imported(path, source):
    """Absolute dotted names that a module imports."""
    package = ("duet", *path.relative_to(PACKAGE).parts[:-1])
    for node in executed(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module in ("duet", "duet.methods"):
                for alias in node.names:
                    yield f"{module}.{alias.name}"
            else:
                yield module


def violations(path, source):
    room = room_of(path)
    for name in imported(path, source):
        top, *rest = name.split(".")
        if top in AT_HOME and room not in AT_HOME[top]:
            yield f"{path}: {room} must not import {top}"
        if top != "duet" or room == "__init__":
            continue
        target = rest[0] if rest else "the package as a whole"
        if target not in LEVEL and target != "__version__":
            yield f"{path}: imports {target} and not the room that it is in"
        elif target != room and target in LEVEL and LEVEL[target] >= LEVEL[room]:
            yield f"{path}: {room} must not import {target}"
        method_file = room == "methods" and path.stem not in ("method", "__init__")
        if method_file and target == "methods" and rest[1:] and rest[1] not in SHARED_BY_METHODS:
            yield f"{path}: a method must not import another method"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_downward(path):
    assert room_of(path) in LEVEL or room_of(path) == "__init__", f"{path} is in no room of the design"
    assert list(violations(path, path.read_text())) == []


def test_every_room_is_there():
    there = {room_of(path) for path in modules()}
    assert there - {"__init__"} == set(LEVEL)


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("groups/views.py", "from ..representation import Target", "groups must not import representation"),
        ("groups/views.py", "from ..representation.target import Target", "groups must not import representation"),
        ("representation/layout.py", "from duet.groups import GROUPS", "representation must not import groups"),
        ("representation/features.py", "import duet.objectives", "representation must not import objectives"),
        ("objectives/nt_xent.py", "from .. import groups", "objectives must not import groups"),
        ("domain.py", "from .error import DuetError", "domain must not import error"),
        ("networks/backbone.py", "from ..methods import Method", "networks must not import methods"),
        ("methods/duet.py", "from ..data import open_images", "methods must not import data"),
        ("methods/duet.py", "from .simclr import SimCLR", "must not import another method"),
        ("methods/duet.py", "from . import essl", "must not import another method"),
        ("data/named.py", "from torchvision import transforms", "data must not import torchvision"),
        ("model/encoder.py", "from ..training.experiment import Experiment", "model must not import training"),
        ("model/encoder.py", "def late():\n    from ..training import train", "model must not import training"),
        ("model/encoder.py", "from .. import Experiment", "imports Experiment and not the room"),
        ("model/encoder.py", "import duet", "imports the package as a whole"),
        ("evaluation/suite.py", "from ..training import train", "evaluation must not import training"),
        ("training/run.py", "from ..evaluation import evaluate", "training must not import evaluation"),
        ("evaluation/suite.py", "from ..paper import cost", "evaluation must not import paper"),
        ("application/files.py", "from ..paper.demo import run_demo", "application must not import paper"),
        ("report/page.py", "from ..explorer import explore", "report must not import explorer"),
        ("sklearn.py", "from .cli import main", "sklearn must not import cli"),
        ("model/encoder.py", "import lightning as L", "model must not import lightning"),
        ("evaluation/suite.py", "import lightning.pytorch", "evaluation must not import lightning"),
        ("metrics.py", "import lightning", "metrics must not import lightning"),
        ("metrics.py", "from .callback import OnlineEquivariance", "metrics must not import callback"),
        ("training/module.py", "import pytorch_lightning", "training must not import pytorch_lightning"),
        ("representation/features.py", "from matplotlib import pyplot", "representation must not import matplotlib"),
        ("training/run.py", "import matplotlib.pyplot as plt", "training must not import matplotlib"),
        ("report/page.py", "import gradio", "report must not import gradio"),
        ("evaluation/suite.py", "import jinja2", "evaluation must not import jinja2"),
        (
            "model/encoder.py",
            "if TYPE_CHECKING:\n    import os\nelse:\n    import lightning",
            "model must not import lightning",
        ),
    ],
)
def test_the_import_check_can_fail(file, line, message):
    assert (PACKAGE / file).exists()
    found = list(violations(PACKAGE / file, line))
    assert len(found) == 1
    assert message in found[0]


def test_what_only_a_type_checker_reads_is_not_looked_at():
    source = "if TYPE_CHECKING:\n    from matplotlib.figure import Figure\n    from ..training import train\n"
    assert list(violations(PACKAGE / "representation" / "features.py", source)) == []


def test_the_topology_is_an_object_and_seldom_a_flag():
    asked = {path: len(re.findall("cyclic", path.read_text())) for path in modules()}
    assert sum(asked.values()) <= CYCLIC, {str(path.relative_to(PACKAGE)): n for path, n in asked.items() if n}
