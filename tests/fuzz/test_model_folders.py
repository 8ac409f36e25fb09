"""Hundreds of hostile model folders: each is a model, or refused in one line."""

import hashlib
import json
import random
import resource
import shutil
import struct

import pytest

import duet
from duet.error import DuetError
from tests.conftest import confident, random_encoder
from tests.fuzz.mutation import mutate_tree

SIZES = (-1, 0, 1, 2, 7, 1000, 10**6, 10**7, 10**10, 2**31, 2**63, 2**64, 10**30)
"""Numbers in the place of sizes."""
VALUES = (
    *(None, True, "", "x", "rot4", "\x00", "a" * 5000, "../../etc/passwd", "os:system", "timm:../x", 1e308, -0.5),
    *([], {}, [[]], [None], {"a": None}, [1, 2], {"name": "rot4"}, float("nan"), float("inf")),
    *SIZES,
)
MEMORY = 1_000
"""MB that all of them together may add to the most that the process ever had."""


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """A small model with everything that a folder can hold: a table, an action, confidence, classes."""
    folder = tmp_path_factory.mktemp("fuzz") / "right"
    return confident(random_encoder(dim=16)).save(folder)


def with_weights(folder, data):
    """Put other weights there, and say that they are the right ones."""
    (folder / "model.safetensors").write_bytes(data)
    config = json.loads((folder / "config.json").read_text())
    config["weights_sha256"] = hashlib.sha256(data).hexdigest()
    (folder / "config.json").write_text(json.dumps(config))


def change_config(folder, drawn):
    """Other values in config.json."""
    config = json.loads((folder / "config.json").read_text())
    kept = config.pop("weights_sha256")
    changed = mutate_tree(config, drawn, VALUES, near=SIZES)
    (folder / "config.json").write_text(json.dumps({"weights_sha256": kept, **changed}))


def cut_config(folder, drawn):
    """Letters of config.json lost or doubled."""
    text = (folder / "config.json").read_text()
    place = drawn.randrange(len(text))
    (folder / "config.json").write_text(text[:place] + drawn.choice(("", "}", "[" * 3000, text)) + text[place + 1 :])


def change_header(folder, drawn):
    """Other shapes, types and places in the header of the weights."""
    data = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = mutate_tree(json.loads(data[8 : 8 + length]), drawn, VALUES, near=(*SIZES, 2**40, 2**63))
    told = json.dumps(header).encode()
    with_weights(
        folder, struct.pack("<Q", drawn.choice((len(told),) * 5 + (0, 2**40, 2**63))) + told + data[8 + length :]
    )


def damage_weights(folder, drawn):
    """Bytes of the weights lost, changed or doubled."""
    data = bytearray((folder / "model.safetensors").read_bytes())
    place = drawn.randrange(len(data))
    data[place : place + drawn.choice((0, 1, 1000))] = drawn.randbytes(drawn.choice((0, 1, 1000)))
    with_weights(folder, bytes(data))


def lose_file(folder, drawn):
    """A file that is not there, empty, or a folder."""
    path = folder / drawn.choice(("config.json", "model.safetensors"))
    path.unlink()
    drawn.choice((lambda: None, path.touch, path.mkdir))()


CHANGES = (change_config, change_config, change_config, change_header, damage_weights, cut_config, lose_file)


def refusal(folder):
    """Why a folder is no model; None where it is one."""
    try:
        duet.load(folder, device="cpu")
    except DuetError as error:
        return str(error)
    return None


def test_a_hostile_folder_is_a_model_or_one_line(right, tmp_path, fuzz):
    drawn = random.Random(fuzz.seed + 5)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loaded = 0
    for number in range(fuzz.times * 500):
        folder = tmp_path / str(number)
        shutil.copytree(right, folder)
        change = CHANGES[number % len(CHANGES)]
        change(folder, drawn)
        said = refusal(folder)
        assert said is None or len(said.splitlines()) == 1, (change.__name__, said)
        loaded += said is None
        shutil.rmtree(folder)
    assert 0 < loaded < fuzz.times * 400
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY * 1000
