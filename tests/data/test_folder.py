"""Image folders, tidy and untidy."""

import os

import numpy as np
import pytest
import torch
from conftest import solid
from PIL import Image

from duet.data import open_images
from duet.error import DuetError


def values(images):
    """The number of every solid image."""
    return images.tensors()[0][:, 0, 0, 0].tolist()


def test_sub_folders_are_classes(image_folder):
    images = open_images(image_folder, "all")
    assert images.classes == ("ant", "bee", "cat")
    assert images.num_classes == 3
    assert images.labels.tolist() == [0] * 10 + [1] * 10 + [2] * 10
    assert values(images) == list(range(30))


def test_held_out_images_are_disjoint_and_balanced(image_folder):
    train, test = open_images(image_folder), open_images(image_folder, "test")
    assert sorted(values(train) + values(test)) == list(range(30))
    assert test.labels.bincount().tolist() == [2, 2, 2]


def test_a_flat_folder_has_no_labels(tmp_path):
    for i in range(5):
        (tmp_path / f"{i}.PNG").write_bytes(solid(i))
    images = open_images(tmp_path, "all")
    assert images.labels is None
    assert images.classes is None
    assert images.num_classes == 0
    assert next(images.batches(4, 0, 0))[1] is None


def test_one_sub_folder_is_no_class(tmp_path):
    (tmp_path / "holiday").mkdir()
    (tmp_path / "holiday" / "1.png").write_bytes(solid(1))
    assert open_images(tmp_path, "all").labels is None


def test_images_beside_the_classes_are_unlabelled(image_folder):
    (image_folder / "stray.png").write_bytes(solid(99))
    images = open_images(image_folder, "all")
    assert images.labels[values(images).index(99)] == -1


@pytest.mark.parametrize("test_name", ["test", "val", "Validation"])
def test_train_and_test_folders_are_the_splits(tmp_path, test_name):
    for split, names in (("train", "ab"), (test_name, "bc")):
        for number, name in enumerate(names):
            (tmp_path / split / name).mkdir(parents=True)
            (tmp_path / split / name / "x.png").write_bytes(solid(number))
    train, test = open_images(tmp_path), open_images(tmp_path, "test")
    assert train.classes == test.classes == ("a", "b", "c")
    assert train.labels.tolist() == [0, 1]
    assert test.labels.tolist() == [1, 2]


def test_other_files_hidden_files_and_pipes_are_passed_over(image_folder):
    (image_folder / "notes.txt").write_text("hello")
    (image_folder / ".DS_Store").write_bytes(b"x")
    (image_folder / "ant" / "._0.png").write_bytes(b"x")
    (image_folder / ".thumbnails").mkdir()
    (image_folder / ".thumbnails" / "0.png").write_bytes(solid(0))
    os.mkfifo(image_folder / "ant" / "pipe.png")
    images = open_images(image_folder, "all")
    assert len(images) == 30
    assert images.skipped == ()


def test_links_are_followed_once(image_folder, tmp_path):
    (image_folder / "cat" / "loop").symlink_to(image_folder)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.png").write_bytes(solid(77))
    (image_folder / "dog").symlink_to(tmp_path / "elsewhere")
    images = open_images(image_folder, "all")
    assert images.classes == ("ant", "bee", "cat", "dog")
    assert values(images).count(77) == 1


def test_unreadable_images_are_left_out_counted_and_listed(image_folder, caplog):
    (image_folder / "ant" / "3.png").write_bytes(b"")
    (image_folder / "bee" / "4.png").write_text("not an image")
    (image_folder / "cat" / "5.png").write_bytes(solid(5)[:40])
    images = open_images(image_folder, "all")
    assert len(images) == len(images.labels) == 27
    assert images.skipped[0] == "ant/3.png: empty file"
    assert images.skipped[1] == "bee/4.png: not an image of a known format"
    assert images.skipped[2].startswith("cat/5.png: ")
    assert set(range(30)) - set(values(images)) == {3, 14, 25}
    assert images.labels.bincount().tolist() == [9, 9, 9]
    assert "3 unreadable image(s) left out: ant/3.png: empty file" in caplog.text


def test_a_long_list_of_unreadable_images_is_cut_in_the_log_only(image_folder, caplog):
    for i in range(8):
        (image_folder / "ant" / f"{i}.png").write_bytes(b"")
    images = open_images(image_folder, "all")
    assert len(images.skipped) == 8
    assert "and 3 more" in caplog.text


@pytest.mark.parametrize("storage", ["memory", "stream"])
@pytest.mark.parametrize("image_size", [None, 8])
def test_a_folder_with_nothing_readable_is_an_error(tmp_path, storage, image_size):
    for i in range(3):
        (tmp_path / f"{i}.png").write_bytes(b"junk")
    with pytest.raises(DuetError, match=r"none of the 3 images of .* can be read; the first: 0.png: not an image"):
        open_images(tmp_path, "all", image_size=image_size, storage=storage)


def test_a_folder_without_images_says_what_was_expected(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DuetError, match=r"no images in .*\.jpg"):
        open_images(tmp_path)


def test_mixed_sizes_need_an_image_size(image_folder):
    (image_folder / "bee" / "3.png").write_bytes(solid(13, size=9))
    with pytest.raises(DuetError, match=r"different sizes .*--image-size"):
        open_images(image_folder, "all")
    assert open_images(image_folder, "all", image_size=8).shape == (3, 8, 8)


def test_a_different_size_that_the_sample_missed_is_found(tmp_path):
    for i in range(100):
        (tmp_path / f"{i:03}.png").write_bytes(solid(i, size=9 if i == 50 else 8))
    with pytest.raises(DuetError, match=r"different sizes .8x8 and 9x9.*--image-size"):
        open_images(tmp_path, "all")


def test_names_that_are_not_unicode_are_read_and_listed(tmp_path):
    for name in (b"caf\xe9.png", b"plain.png"):
        with open(os.path.join(os.fsencode(tmp_path), name), "wb") as file:
            file.write(solid(7) if name.startswith(b"p") else b"")
    images = open_images(tmp_path, "all")
    assert values(images) == [7]
    assert images.skipped == ("caf\\xe9.png: empty file",)


def test_a_folder_is_read_in_the_same_order_every_time(image_folder):
    assert torch.equal(open_images(image_folder).tensors()[0], open_images(image_folder).tensors()[0])


@pytest.mark.parametrize("colour", [False, True])
def test_colour_images_taken_as_grey_are_warned_of(tmp_path, caplog, colour):
    for number in range(6):
        pixels = np.random.default_rng(number).integers(0, 256, (24, 24, 1), dtype=np.uint8)
        pixels = np.concatenate([pixels, pixels, pixels // 4 if colour else pixels], axis=2)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    open_images(tmp_path, "all", channels=3)
    assert "in colour" not in caplog.text
    assert open_images(tmp_path, "all", channels=1).channels == 1
    assert ("in colour and are taken as grey" in caplog.text) == colour
