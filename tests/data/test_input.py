"""Images in every form that people hold them become the same batches, and what is no image says so."""

import os

import numpy as np
import pytest
import torch
from conftest import encoded
from PIL import Image

from duet.data.decoding import decode
from duet.data.input import count_pictures, picture_batches


def pixels(images, channels=3, size=(8, 8), batch_size=4):
    parts = list(picture_batches(images, channels, size, batch_size))
    return torch.cat(parts) if parts else torch.empty(0, channels, *size)


@pytest.fixture
def colours():
    return np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)


@pytest.fixture
def files(colours, tmp_path):
    paths = [tmp_path / f"{number}.png" for number in range(len(colours))]
    for path, array in zip(paths, colours, strict=True):
        Image.fromarray(array).save(path)
    return paths


def test_every_form_gives_the_same_pixels(colours, files):
    expected = torch.from_numpy(colours).permute(0, 3, 1, 2)
    tensor = expected.clone()
    forms = {
        "array": colours,
        "integers": colours.astype(np.int32),
        "big-endian": colours.astype(">u2"),
        "read-only": np.frombuffer(colours.tobytes(), np.uint8).reshape(colours.shape),
        "list of arrays": list(colours),
        "object array": _object_array(colours),
        "tensor": tensor,
        "list of tensors": list(tensor),
        "pillow": [Image.fromarray(array) for array in colours],
        "paths": files,
        "texts": [str(path) for path in files],
        "generator": (path for path in files),
        "mixed": [files[0], colours[1], tensor[2], Image.fromarray(colours[3]), str(files[4]), colours[5]],
    }
    for name, form in forms.items():
        assert torch.equal(pixels(form), expected), name


def _object_array(colours):
    array = np.empty(len(colours), dtype=object)
    for number, image in enumerate(colours):
        array[number] = image
    return array


def test_one_image_is_a_batch_of_one(colours, files):
    grey = colours[0, :, :, 0]
    for form in (colours[0], torch.from_numpy(colours[0]).permute(2, 0, 1), files[0], Image.fromarray(colours[0])):
        assert pixels(form).shape == (1, 3, 8, 8)
    assert pixels(grey, channels=1).shape == pixels(torch.from_numpy(grey), channels=1).shape == (1, 1, 8, 8)


def test_floats_of_the_models_size_keep_their_digits():
    images = torch.rand(3, 1, 8, 8)
    assert torch.equal(pixels(images, channels=1), images)
    assert torch.allclose(pixels(images[:, 0].double().numpy(), channels=1), images, atol=1e-7)
    assert pixels(np.eye(8, dtype=bool), channels=1).max() == 1


def test_another_size_becomes_what_training_would_have_made_of_it(picture, tmp_path):
    (tmp_path / "picture.png").write_bytes(encoded(picture))
    expected = torch.from_numpy(decode(encoded(picture), 1, image_size=8))[None]
    shares = np.asarray(picture) / 255.0
    for form in (tmp_path / "picture.png", picture, np.asarray(picture), shares, torch.tensor(shares).permute(2, 0, 1)):
        assert torch.equal(pixels(form, channels=1), expected)


def test_grey_and_transparent_images_get_the_models_channels(colours):
    grey, clear = colours[..., 0], np.concatenate([colours, np.zeros_like(colours[..., :1])], axis=-1)
    assert (pixels(grey) == torch.from_numpy(grey)[:, None]).all()
    assert not pixels(clear).any()  # laid over black


def test_a_mix_of_bytes_and_shares_is_all_shares():
    mixed = pixels([np.full((8, 8), 255, np.uint8), np.full((8, 8), 0.5)], channels=1)
    assert mixed.dtype == torch.float32
    assert mixed.amax((1, 2, 3)).tolist() == [1.0, 0.5]


def test_batches_have_the_size_asked_for(colours):
    for form in (colours, list(colours), iter(colours)):
        assert [len(part) for part in picture_batches(form, 3, (8, 8), 4)] == [4, 2]
    assert pixels([]).shape == (0, 3, 8, 8)
    assert pixels(torch.empty(0, 3, 8, 8)).shape == (0, 3, 8, 8)


def test_images_are_counted_where_that_is_possible(colours):
    tensor = torch.zeros(5, 1, 8, 8)
    forms = [
        colours,
        colours[0],
        colours[..., 0],
        colours[0, ..., 0],
        tensor,
        tensor[0],
        "a.png",
        ["a", "b"],
        iter("ab"),
    ]
    assert [count_pictures(form) for form in forms] == [6, 1, 6, 1, 5, 1, 1, 2, None]


def test_a_model_that_is_not_square_takes_its_own_size_only(colours):
    assert pixels(Image.new("L", (6, 4)), channels=1, size=(4, 6)).shape == (1, 1, 4, 6)
    with pytest.raises(ValueError, match="8x8; this model takes exactly 6x4"):
        pixels(list(colours), size=(4, 6))


@pytest.mark.parametrize(
    ("images", "reason"),
    [
        (None, "no images but nothing"),
        (3, "no images but an int"),
        (b"bytes", "no images but a bytes"),
        ({"a": 1}, "no images but a dict"),
        ([None], "image 0 cannot be used: it is nothing"),
        ([[1, 2], [3, 4]], "image 0 cannot be used: it is a list"),
        ("missing.png", r"image 0 \(missing.png\) cannot be used: file not found"),
        (np.zeros(5), "not \\(5,\\)"),
        (np.zeros((2, 8, 8, 2)), "not \\(2, 8, 8, 2\\)"),
        (np.zeros((3, 8, 8), np.uint8), "channels first"),
        (torch.zeros(5, 8, 8), r"images\[:, None\]"),
        (np.full((8, 8), 256), "0 to 255"),
        (np.full((8, 8), -0.5), "must lie in"),
        (np.full((8, 8), 200.0), "divide them by 255"),
        (torch.full((2, 3, 8, 8), 200.0), "divide them by 255"),
        ([np.full((9, 9, 3), 200.0)], "image 0 cannot be used: .*divide them by 255"),
        (np.full((8, 8), np.nan), "no NaN"),
        (np.zeros((8, 8), complex), "complex"),
        (np.array(["a.png"]), "not \\(1,\\)"),
        ([np.zeros((4, 8, 8))], "image 0 cannot be used: shape"),
        ([np.zeros((8, 8)), np.full((8, 8), 7.0)], "image 1 cannot be used"),
    ],
)
def test_what_is_no_image_is_refused_in_one_sentence(images, reason):
    with pytest.raises(ValueError, match=reason) as error:
        pixels(images)
    assert "\n" not in str(error.value)


def test_a_folder_and_a_pipe_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ValueError, match="a folder; give the files in it"):
        pixels([tmp_path])
    with pytest.raises(ValueError, match="not a regular file"):
        pixels(tmp_path / "pipe.png")
