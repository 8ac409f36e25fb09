"""Batches: the same from memory and from a stream, resumable, shared between processes."""

import pickle

import numpy as np
import pytest
import torch
from conftest import encoded, solid
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from duet.data import MemoryImages, StreamImages, cores, open_images, opening, stream
from duet.data.order import epoch_order
from duet.data.source import Arrays
from duet.error import DuetError

STORAGES = ["memory", "stream"]


@pytest.fixture(params=STORAGES)
def images(request, image_folder):
    return open_images(image_folder, "all", storage=request.param, workers=0)


def batch_list(images, *arguments, **options):
    return [(pixels.clone(), labels.clone()) for pixels, labels in images.batches(*arguments, **options)]


def same(first, second):
    return len(first) == len(second) and all(
        torch.equal(a, c) and torch.equal(b, d) for (a, b), (c, d) in zip(first, second, strict=True)
    )


def test_batches_are_uint8_with_their_labels(images):
    for pixels, labels in images.batches(8, seed=0, epoch=0):
        assert pixels.shape == (8, 3, 8, 8)
        assert pixels.dtype == torch.uint8
        assert labels.dtype == torch.int64
        assert torch.equal(pixels[:, 0, 0, 0] // 10, labels)


def test_an_epoch_shows_every_image_once(images):
    seen = torch.cat([pixels[:, 0, 0, 0] for pixels, _ in images.batches(7, 0, 0, drop_last=False)])
    assert sorted(seen.tolist()) == list(range(30))
    assert len(batch_list(images, 7, 0, 0)) == images.batches_per_epoch(7) == 4


def test_memory_and_stream_give_the_same_batches(image_folder):
    memory, streamed = (open_images(image_folder, "all", storage=storage, workers=0) for storage in STORAGES)
    options = {"seed": 3, "epoch": 2, "rank": 1, "world": 2, "start": 1}
    assert same(batch_list(memory, 5, **options), batch_list(streamed, 5, **options))
    assert all(torch.equal(a, b) for a, b in zip(memory.tensors(), streamed.tensors(), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(memory.statistics(), streamed.statistics(), strict=True))
    assert torch.equal(memory[4], streamed[4])
    assert torch.equal(memory[-1], streamed[-1])


def test_workers_give_the_same_batches_as_none(image_folder):
    alone, helped = (open_images(image_folder, "all", storage="stream", workers=n) for n in (0, 2))
    assert same(batch_list(alone, 8, 0, 0), batch_list(helped, 8, 0, 0))


def test_resuming_at_a_batch_is_the_rest_of_the_epoch(images):
    assert same(batch_list(images, 8, 1, 1)[2:], batch_list(images, 8, 1, 1, start=2))
    assert batch_list(images, 8, 1, 1, start=3) == []


def test_resuming_reads_nothing_twice(image_folder, monkeypatch):
    images = open_images(image_folder, "all", storage="stream", workers=0)
    read = []
    decode_one = stream._Decoder.decode_one
    monkeypatch.setattr(stream._Decoder, "decode_one", lambda self, i: read.append(i) or decode_one(self, i))
    batch_list(images, 8, 1, 1, start=2)
    assert len(read) == 8


def test_processes_see_disjoint_images(images):
    shares = [batch_list(images, 5, 0, 0, rank=r, world=3) for r in range(3)]
    seen = torch.cat([pixels[:, 0, 0, 0] for share in shares for pixels, _ in share])
    assert sorted(seen.tolist()) == list(range(30))


def test_epochs_differ_and_repeat(images):
    assert same(batch_list(images, 8, 0, 1), batch_list(images, 8, 0, 1))
    assert not same(batch_list(images, 8, 0, 1), batch_list(images, 8, 0, 2))


def test_the_global_generator_is_left_alone(images):
    state = torch.get_rng_state()
    batch_list(images, 8, 0, 0)
    images.statistics()
    assert torch.equal(state, torch.get_rng_state())


def test_a_batch_larger_than_the_set_fails_when_asked_not_later(images):
    with pytest.raises(DuetError, match="30 images make no batch of 64: use a --batch-size of at most 30"):
        images.batches(64, 0, 0)
    with pytest.raises(DuetError, match="at most 30"):
        images.batches_per_epoch(64)


def test_two_epochs_can_run_side_by_side(images):
    first, second = images.batches(8, 0, 0), images.batches(8, 0, 0)
    for (a, _), (b, _) in zip(first, second, strict=True):
        assert torch.equal(a, b)


def test_in_order_is_the_order_of_the_source(images):
    pixels = torch.cat([pixels for pixels, _ in images.in_order(batch_size=7)])
    assert pixels[:, 0, 0, 0].tolist() == list(range(30))


def test_statistics_are_those_of_the_pixels(images):
    pixels = images.tensors()[0].double() / 255
    mean, std = images.statistics()
    torch.testing.assert_close(mean.double(), pixels.mean((0, 2, 3)), atol=1e-6, rtol=0)
    torch.testing.assert_close(std.double(), pixels.std((0, 2, 3), correction=0), atol=1e-6, rtol=0)
    mean.zero_()
    assert images.statistics()[0].any()


def test_statistics_of_many_images_come_from_a_bounded_sample(image_folder, monkeypatch):
    images = open_images(image_folder, "all")
    monkeypatch.setattr(type(images), "statistics_sample", 10)
    asked = []
    fetch = images._fetch
    monkeypatch.setattr(images, "_fetch", lambda batches, replace: fetch(asked.extend(batches) or asked, replace))
    images.statistics()
    assert sum(map(len, asked)) == 10


def test_constant_images_have_a_usable_deviation(tmp_path):
    (tmp_path / "x.png").write_bytes(solid(0))
    _, std = open_images(tmp_path, "all").statistics()
    assert (std > 0).all()


def test_memory_batches_start_no_process_and_copy_no_epoch(image_folder, monkeypatch):
    images = open_images(image_folder, "all")
    monkeypatch.setattr(torch.utils.data.DataLoader, "__init__", lambda *a, **k: pytest.fail("a loader was made"))
    pixels = images.tensors()[0]
    assert pixels.data_ptr() == images.tensors()[0].data_ptr()
    assert len(batch_list(images, 8, 0, 0)) == 3


BROKEN = ["ant/3.png", "ant/4.png", "cat/9.png"]


def break_some(folder):
    for name in BROKEN:
        (folder / name).write_bytes(b"junk")


def test_a_broken_image_in_a_stream_gives_way_to_the_next_one(image_folder, caplog):
    break_some(image_folder)
    images = open_images(image_folder, "all", storage="stream", workers=0)
    seen = torch.cat([pixels[:, 0, 0, 0] for pixels, _ in images.batches(10, 0, 0)])
    labels = torch.cat([labels for _, labels in images.batches(10, 0, 0)])
    # 3 and 4 gave way to 5, and 29, the last, to 0.
    assert sorted(seen.tolist()) == [0, *range(3), 5, 5, 5, *range(6, 29)]
    assert torch.equal(torch.cat([p[:, 0, 0, 0] // 10 for p, _ in images.batches(10, 0, 0)]), labels)
    assert sorted(images.skipped) == [f"{name}: not an image of a known format" for name in BROKEN]
    # Noted once, however often it is met.
    assert caplog.text.count("cat/9.png") == 1


def test_a_broken_image_in_a_stream_is_left_out_of_an_evaluation(image_folder):
    break_some(image_folder)
    images = open_images(image_folder, "all", storage="stream", workers=2)
    pixels, labels = images.tensors()
    assert len(pixels) == len(labels) == 27
    assert len(images.skipped) == 3
    with pytest.raises(DuetError, match=r"ant/3.png: not an image"):
        images[3]


def test_a_stream_that_breaks_altogether_stops_with_one_line(image_folder):
    images = open_images(image_folder, "all", storage="stream", workers=2, image_size=8)
    for file in image_folder.rglob("*.png"):
        file.write_bytes(b"junk")
    with pytest.raises(DuetError, match=r"images in a row cannot be read: .*not an image") as caught:
        batch_list(images, 8, 0, 0)
    assert "\n" not in str(caught.value)
    with pytest.raises(DuetError, match="none of 30 sampled images"):
        images.statistics()


def test_another_size_in_a_stream_is_left_out_with_advice(tmp_path):
    for i in range(100):
        (tmp_path / f"{i:03}.png").write_bytes(solid(i, size=9 if i == 50 else 8))
    images = open_images(tmp_path, "all", storage="stream", workers=0)
    assert len(images.tensors()[0]) == 99
    assert images.skipped == ("050.png: 9x9, unlike the others: choose one size with --image-size",)


def test_a_stream_can_be_sent_to_another_process(image_folder):
    images = open_images(image_folder, "all", storage="stream")
    again = pickle.loads(pickle.dumps(images._decoder))
    assert (again[3, False].pixels == images._decoder[3, False].pixels).all()


def test_processes_of_one_node_share_its_cores(monkeypatch):
    alone = cores.available_cores()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(alone))
    assert cores.available_cores() == 1
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1000")
    assert cores.available_cores() == 1


def test_large_sets_stream_and_small_ones_do_not(image_folder, monkeypatch, caplog):
    caplog.set_level("INFO")
    assert open_images(image_folder).storage == "memory"
    assert "24 images 8x8x3, in memory" in caplog.text
    monkeypatch.setattr(opening, "MEMORY_LIMIT", 24 * 8 * 8 * 3 - 1)
    assert open_images(image_folder).storage == "stream"
    assert "24 images 8x8x3, streamed" in caplog.text
    assert open_images(image_folder, storage="memory").storage == "memory"
    assert open_images(image_folder, image_size=4).storage == "memory"


def test_a_subset_is_balanced_and_repeats(image_folder):
    first, second = (open_images(image_folder, "all", subset=9, seed=1) for _ in range(2))
    assert first.labels.bincount().tolist() == [3, 3, 3]
    assert torch.equal(first.tensors()[0], second.tensors()[0])
    other = open_images(image_folder, "all", subset=9, seed=2)
    assert not torch.equal(first.tensors()[0], other.tensors()[0])
    streamed = open_images(image_folder, "all", subset=9, seed=1, storage="stream", workers=0)
    assert torch.equal(streamed.tensors()[0], first.tensors()[0])


def test_channels_and_size_are_options(image_folder):
    assert open_images(image_folder, channels=1, image_size=5).shape == (1, 5, 5)
    assert open_images(image_folder, channels=1).channels == 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"channels": 2}, "1 or 3 channels, not 2"),
        ({"storage": "disk"}, "no storage 'disk'; there are auto, memory, stream"),
        ({"image_size": 0}, "image size starts at 1"),
        ({"subset": 0}, "subset starts at 1"),
        ({"subset": 25}, "has 24 train images, fewer than a --subset of 25"),
        ({"workers": -1}, "workers starts at 0"),
        ({"split": "dev"}, "no split 'dev'"),
    ],
)
def test_impossible_options_are_refused(image_folder, options, line):
    with pytest.raises(DuetError, match=line):
        open_images(image_folder, **options)


def test_a_draw_is_a_seeded_choice_without_replacement(image_folder):
    images = open_images(image_folder, "all")
    drawn = images.sample(20, seed=3)
    assert len(drawn.flatten(1).unique(dim=0)) == len(drawn) == 20
    assert torch.equal(drawn, images.sample(20, seed=3))
    assert not torch.equal(drawn, images.sample(20, seed=4))
    assert len(images.sample(100, seed=0)) == 30
    streamed = open_images(image_folder, "all", storage="stream", workers=0)
    assert torch.equal(streamed.sample(20, seed=3), drawn)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("mode", ["1", "L", "I;16", "LA", "RGB", "JPEG"])
def test_grey_files_are_grey_in_three_channels_too(tmp_path, storage, mode):
    for i in range(4):
        grey = Image.new("L", (8, 8), 60 * i)
        kind, image = ("JPEG", grey.convert("RGB")) if mode == "JPEG" else ("PNG", grey.convert(mode))
        (tmp_path / f"{i}.png").write_bytes(encoded(image, kind))
    for channels in (1, 3):
        assert open_images(tmp_path, "all", channels=channels, storage=storage, workers=0).is_grey()


def test_colour_files_are_not_grey(images):
    assert not images.is_grey()


@given(st.integers(0, 9), st.integers(0, 2), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2**40))
def test_one_pixel_of_colour_in_the_sample_is_enough(image, channel, y, x, seed):
    pixels = torch.arange(10, dtype=torch.uint8)[:, None, None, None].repeat(1, 3, 4, 4)
    images = MemoryImages("x", "all", pixels)
    assert images.is_grey(10, seed)
    pixels[image, channel, y, x] = 200
    assert not images.is_grey(10, seed)
    # Only what `draw` draws is looked at.
    assert images.is_grey(5, seed) == (not (images.sample(5, seed) == 200).any())


def test_every_batch_of_the_sample_is_looked_at():
    pixels = torch.zeros(1100, 3, 2, 2, dtype=torch.uint8)
    images = MemoryImages("x", "all", pixels)
    pixels[epoch_order(1100, seed=7, epoch=0)[-1], 0] = 200
    assert not images.is_grey(1100, seed=7)
    assert images.is_grey(1099, seed=7)


def test_one_channel_is_grey_without_reading_an_image(image_folder, monkeypatch):
    images = open_images(image_folder, channels=1)
    monkeypatch.setattr(images, "_fetch", lambda *a, **k: pytest.fail("images were read"))
    assert images.is_grey()


def test_images_describe_themselves_in_one_short_line():
    digits = open_images("digits", channels=1)
    assert repr(digits) == "MemoryImages('digits', 'train', 4000 x 1x28x28, 10 classes)"
    streamed = StreamImages("photos", "test", Arrays(np.zeros((5, 8, 6))), torch.arange(5), (3, 8, 6), None)
    assert repr(streamed) == "StreamImages('photos', 'test', 5 x 3x8x6, no labels)"
    empty = MemoryImages("none", "all", torch.empty(0, 3, 8, 8), torch.empty(0))
    assert repr(empty) == "MemoryImages('none', 'all', 0 x 3x8x8, 0 classes)"
    long = MemoryImages("/a" * 100 + "/photos", "all", torch.empty(2, 3, 8, 8))
    assert len(repr(long)) < 100
    assert "/photos'" in repr(long)


def test_other_images_have_another_fingerprint(image_folder):
    def fingerprint(**options):
        return open_images(image_folder, **{"split": "all", "workers": 0, **options}).fingerprint()

    assert fingerprint() == fingerprint(storage="stream")
    others = [fingerprint(split="train"), fingerprint(image_size=4), fingerprint(channels=1), fingerprint(subset=9)]
    before = fingerprint()
    (image_folder / "bee" / "3.png").write_bytes((image_folder / "ant" / "0.png").read_bytes())
    assert len({before, fingerprint(), *others}) == 6


def test_a_part_is_a_set_of_its_own(images):
    rows = torch.tensor([3, 17, 4, 29])
    part = images.part(rows, "calibration")
    assert (len(part), part.split, part.name, part.shape) == (4, "calibration", images.name, images.shape)
    assert torch.equal(part.labels, images.labels[rows])
    assert part.num_classes == images.num_classes
    whole, _ = images.tensors()
    assert torch.equal(part.tensors()[0], whole[rows])
    assert torch.equal(part[1], whole[17])
    seen = torch.cat([pixels[:, 0, 0, 0] for pixels, _ in part.batches(2, 0, 0)])
    assert sorted(seen.tolist()) == [3, 4, 17, 29]
    again = part.part(torch.tensor([1, 2]))
    assert torch.equal(again.tensors()[0], whole[[17, 4]])
    assert list(again.identities()) == [list(images.identities())[row] for row in (17, 4)]
    assert not torch.equal(part.statistics()[0], images.statistics()[0])


def test_a_part_of_a_set_in_memory_copies_no_pixels():
    images = MemoryImages("made", "train", torch.zeros(1000, 1, 8, 8, dtype=torch.uint8))
    assert images.part(torch.arange(900))._pixels.data_ptr() == images._pixels.data_ptr()


def test_images_are_known_by_their_names_in_memory_and_in_a_stream(image_folder):
    memory, streamed = (open_images(image_folder, "all", storage=storage, workers=0) for storage in STORAGES)
    names = list(memory.identities())
    assert names == list(streamed.identities())
    assert len(set(names)) == 30
    assert not any(str(image_folder).encode() in name for name in names)  # or a moved folder would be split anew


def test_images_without_names_are_known_by_their_pixels():
    pixels = torch.randint(256, (5, 1, 4, 4), dtype=torch.uint8)
    there = list(MemoryImages("made", "train", pixels).identities())
    assert list(MemoryImages("other", "test", pixels.flip(0)).identities()) == there[::-1]
    assert len(set(there)) == 5


def test_what_is_broken_is_never_replaced_from_outside_its_part(image_folder):
    (image_folder / "ant" / "3.png").write_bytes(b"broken")
    images = open_images(image_folder, "all", storage="stream", workers=0)
    part = images.part(torch.tensor([3, 20]))
    assert {int(pixel) for pixels, _ in part.batches(1, 0, 0) for pixel in pixels[:, 0, 0, 0]} == {20}
    assert images.skipped == part.skipped != ()
