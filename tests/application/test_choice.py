"""Without a model named, only one that knows the images is taken."""

import pytest
import torch
from PIL import Image

from duet import DuetError
from duet.application import choice
from duet.application.choice import choose_model, draw
from duet.application.files import Found

from ..conftest import confident, random_encoder


def test_a_draw_is_fair_and_the_same_every_time():
    files = [Found(f"{i}.png", None) for i in range(50)]
    assert draw(files[:3], 5) == files[:3]
    assert draw(files, 5) == draw(iter(files), 5)
    assert len(set(draw(files, 5))) == 5
    late = sum(int(str(found.path)[:-4]) >= 25 for found in draw(files, 20))
    assert 5 <= late <= 15


@pytest.fixture
def photos(tmp_path):
    for place in range(4):
        noise = torch.randint(256, (28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(place))
        Image.fromarray(noise.numpy()).save(tmp_path / f"{place}.png")
    (tmp_path / "broken.png").write_bytes(b"nothing")
    return tmp_path


def with_models(monkeypatch, **models):
    def load(name, device, turns):
        if models[name] is None:
            raise DuetError(f"{name} needs weights: pip install them")
        return models[name]

    monkeypatch.setattr(choice, "shipped_models", lambda: list(models))
    monkeypatch.setattr(choice, "load", load)


def test_the_model_that_knows_most_is_taken(photos, monkeypatch):
    known, strange = confident(random_encoder()), confident(random_encoder(), strangeness=1e6)
    with_models(monkeypatch, away=None, strange=strange, known=known)
    counts = {id(known): (4, 3, 4), id(strange): (4, 1, 4)}
    monkeypatch.setattr(choice, "_known", lambda encoder, sample: counts[id(encoder)])
    chosen = choose_model([photos])
    assert chosen.encoder is known
    assert str(chosen) == "model: known, sure of 3 of 4 sampled images"


def test_familiar_features_alone_are_no_knowledge(photos, monkeypatch):
    """Of plankton a model of photos may find all features usual: it is sure of next to none."""
    encoder = confident(random_encoder())
    with_models(monkeypatch, usual=encoder)
    monkeypatch.setattr(choice, "_known", lambda *_: (48, 11, 48))
    with pytest.raises(DuetError, match=r"knows such images \(usual is sure of 11 of 48\): name a model"):
        choose_model([photos])
    monkeypatch.setattr(choice, "_known", lambda *_: (48, 12, 48))
    assert choose_model([photos]).encoder is encoder


def test_where_none_knows_them_one_line_says_so(photos, monkeypatch):
    with_models(monkeypatch, away=None, strange=confident(random_encoder(), strangeness=1e6))
    with pytest.raises(DuetError) as raised:
        choose_model([photos])
    assert "strange is sure of 0 of 4; away needs weights: pip install them" in str(raised.value)
    assert "--model RUN|NAME" in str(raised.value)
    with pytest.raises(DuetError, match=r"no image there can be read: .*broken.png"):
        choose_model([photos / "broken.png"])
    with pytest.raises(DuetError, match="mistyped does not exist"):
        choose_model([photos / "mistyped"])


def test_a_model_that_is_sure_beats_one_that_only_knows(photos, monkeypatch):
    doubtful, sure = confident(random_encoder()), confident(random_encoder())
    with_models(monkeypatch, doubtful=doubtful, sure=sure)
    told = {id(doubtful): (4, 0, 4), id(sure): (3, 2, 4)}
    monkeypatch.setattr(choice, "_known", lambda encoder, sample: told[id(encoder)])
    assert choose_model([photos]).encoder is sure


def test_a_model_that_is_not_calibrated_for_so_many_turns_says_for_which(photos, monkeypatch):
    encoder = confident(random_encoder())
    encoder.turns = 2
    with_models(monkeypatch, known=encoder)
    with pytest.raises(DuetError, match="knows how sure it is with 1 turns, not with 2: give --turns 1"):
        choose_model([photos], turns=2)
