"""The fingerprint of a set is of which images it holds: not of how they are stored, nor of their order."""

import hashlib
import shutil

import datasets
import pytest
import torch
from conftest import solid

from duet.data import MemoryImages, open_images
from duet.data.identity import identity_of


def test_storage_place_and_size_of_the_images_do_not_matter(image_folder, tmp_path):
    found = [identity_of(open_images(image_folder, "all", storage=s, workers=0)) for s in ("memory", "stream")]
    shutil.copytree(image_folder, tmp_path / "moved")
    found.append(identity_of(open_images(tmp_path / "moved", "all", image_size=4, channels=1)))
    assert found[0]["count"] == 30
    assert found == [found[0]] * 3
    assert len(found[0]["fingerprint"]) == 16


def test_order_does_not_matter_where_names_do_not_hold_it(image_folder):
    images = open_images(image_folder, "all")
    whole = identity_of(images)
    assert identity_of(images.part(torch.arange(29, -1, -1))) == whole
    parts = [identity_of(images.part(rows)) for rows in (torch.arange(29), torch.arange(1, 30))]
    assert [part["count"] for part in parts] == [29, 29]
    assert len({found["fingerprint"] for found in (whole, *parts)}) == 3


def test_another_name_or_class_is_another_set(image_folder):
    whole = identity_of(open_images(image_folder, "all"))
    (image_folder / "ant" / "0.png").rename(image_folder / "ant" / "00.png")
    renamed = identity_of(open_images(image_folder, "all"))
    (image_folder / "ant" / "00.png").rename(image_folder / "bee" / "00.png")
    moved = identity_of(open_images(image_folder, "all"))
    assert len({found["fingerprint"] for found in (whole, renamed, moved)}) == 3
    assert {found["count"] for found in (whole, renamed, moved)} == {30}


def table(labels):
    rows = [{"image": {"bytes": solid(i), "path": None}, "label": label} for i, label in enumerate(labels)]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    return datasets.Dataset.from_list(rows, features=features)


def test_tables_of_as_many_rows_differ_by_their_labels(tmp_path):
    """Rows have no names but their numbers."""
    first, second = [0, 1] * 6, [1, 0] * 6
    found = [identity_of(open_images(table(labels), "all")) for labels in (first, second, [*first, 0], first)]
    assert found[0] == found[3]
    assert len({one["fingerprint"] for one in found}) == 3
    table(first).to_parquet(tmp_path / "set.parquet")
    assert identity_of(open_images(tmp_path / "set.parquet", "all", storage="stream", workers=0)) == found[0]


def test_a_subset_is_another_set_and_the_same_one_by_the_same_seed():
    def drawn(**options):
        return identity_of(open_images("digits", subset=100, **options))

    assert drawn() == drawn(storage="stream", workers=0)
    assert drawn() != drawn(seed=1)
    assert drawn()["count"] == drawn(seed=1)["count"] == 100


@pytest.mark.parametrize("labels", [None, torch.tensor([3, -1])])
def test_pixels_stand_for_images_without_names(labels):
    pixels = torch.randint(256, (2, 1, 4, 4), dtype=torch.uint8)
    found = identity_of(MemoryImages("made", "train", pixels, labels))
    flipped = None if labels is None else labels.flip(0)
    assert identity_of(MemoryImages("other", "test", pixels.flip(0), flipped)) == found
    assert identity_of(MemoryImages("made", "train", pixels + 1, labels)) != found


def test_the_fingerprint_stays_or_records_would_be_of_other_images():
    """Computed by a loop of its own: sorted digests of `LABEL NAME`, hashed together."""
    images = open_images("digits", subset=20)
    lines = [
        f"{label} ".encode() + name for label, name in zip(images.labels.tolist(), images.identities(), strict=True)
    ]
    whole = hashlib.sha256()
    for digest in sorted(hashlib.blake2b(line, digest_size=16).digest() for line in lines):
        whole.update(digest)
    assert identity_of(images) == {"count": 20, "fingerprint": whole.hexdigest()[:16]}
    assert identity_of(open_images("digits", "all"))["fingerprint"] == "80bdcb91d7ce5611"
