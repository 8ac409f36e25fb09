"""A trained model on disk: model.safetensors and config.json, nothing that can run code."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..device import find_device
from ..error import DuetError, check_name, first_line, shorten, shown
from ..file import as_json, read_settings, whole_files
from ..groups import Group, find_group
from ..networks import Backbone, OnlineHead, build_backbone, wrap
from ..networks.decoder import Decoder
from ..networks.neck import OnTrunk, build_on_trunk, open_trunk
from ..plugin import home_of, is_spec, require_plugins, trusted
from ..representation import Spectrum, layout_from_dict
from ..representation.storage import action_tensors, list_actions, part_of, read_actions
from .allowance import LARGEST_ON_TRUNK, LARGEST_SIDE, SPARE, Allowance, check_numbers, check_size
from .card import model_card
from .checkpoint import read_checkpoint, write_checkpoint
from .confidence import Confidence
from .encoder import Encoder
from .half import in_half, in_single
from .hub import find_model

FORMAT = 2
BLOCK = 2**26
"""Bytes of a file of weights that are read at once."""


def load(
    name: str | os.PathLike[str],
    device: str | torch.device = "auto",
    *,
    backbone: nn.Module | None = None,
    turns: int | None = None,
    **options: Any,
) -> Encoder:
    """The encoder of a run, a model's folder, a shipped name or a Hub id, on a device.

    Give the backbone if it was one of your own: a Backbone, or a plain module, which is wrapped. `turns`: turned copies
    of an image to look at; default the model's own, 1 is fastest. `revision`, `token`, `cache_dir`, ... go to the Hub's
    download.
    """
    check_name(name, "load", "a run, a model's folder, a shipped model or a Hub id", "a module goes to backbone=")
    if backbone is not None and not isinstance(backbone, nn.Module):
        raise DuetError(f"backbone= takes the module that the model was trained with, not a {type(backbone).__name__}")
    where = find_device(device)
    encoder = _read(find_model(name, **options), backbone).to(where)
    encoder.turns = encoder.turns if turns is None else turns
    return encoder


def write_model(encoder: Encoder, folder: Path, provenance: Mapping[str, Any], half: bool = False) -> Path:
    """Write the weights, then the card if there is none, then what makes them a model: without it there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"backbone.{key}": value for key, value in encoder.backbone.state_dict().items()}
    if encoder.head is not None:
        tensors |= {f"head.{key}": value for key, value in encoder.head.state_dict().items()}
    tensors |= action_tensors(encoder.actions)
    for turns, own in encoder.confidences.items():
        tensors |= {f"{_place(turns)}.mean": own.mean, f"{_place(turns)}.whitening": own.whitening}
    # Copies, since safetensors refuses tensors that share memory, as tied weights do.
    copies = {key: value.detach().to("cpu", copy=True).contiguous() for key, value in tensors.items()}
    if half:
        # The law T_a T_b = T_(a + b) of a spectrum is exact, and stays so.
        copies = in_half(copies, exact=[key for key in copies if f".{Spectrum.name}." in key])
    try:
        json.dumps(dict(provenance), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DuetError(f"a provenance holds plain values only: {first_line(error)}") from None
    weights = folder / "model.safetensors"
    before = _sha256(weights) if weights.exists() else None
    told = {turns: own.to_dict() for turns, own in encoder.confidences.items()}
    config = {
        "format": FORMAT,
        "weights_sha256": None,
        "backbone": encoder.backbone.recipe,
        "layout": encoder.layout.to_dict(),
        "groups": [_plain_group(group) for group in encoder.groups.values()],
        "reference": encoder.reference,
        "image_size": None if encoder.image_size is None else list(encoder.image_size),
        "classes": None if encoder.classes is None else list(encoder.classes),
        "num_classes": None if encoder.head is None else encoder.head.linear.out_features,
        "actions": list_actions(encoder.actions),
        "precision": "float16" if half else "float32",
        "turns": encoder.turns,
        "confidence": told.pop(1, None),
        "confidences": {str(turns): own for turns, own in told.items()},
        "provenance": dict(provenance),
    }
    card = folder / "README.md"
    paths = [weights, *([] if card.exists() else [card]), folder / "config.json"]
    with whole_files(*paths) as partials:
        save_file(copies, partials[0])
        config["weights_sha256"] = _sha256(partials[0])
        if len(partials) == 3:
            partials[1].write_text(model_card(encoder, provenance), encoding="utf-8")
        partials[-1].write_text(as_json(config), encoding="utf-8")
    if before not in (None, config["weights_sha256"]):
        shutil.rmtree(folder / "decoders", ignore_errors=True)  # they decode features of other weights
    return folder


def save_decoder(decoder: Decoder, run: Path, group: str) -> None:
    """Keep a decoder of a run's features, trained under a group, with its model."""
    folder = run / "model" if (run / "model").exists() else run
    write_checkpoint({"config": decoder.to_dict(), "weights": decoder.state_dict()}, _decoder_path(folder, group))


def load_decoder(name: str | os.PathLike[str], group: str, device: str | torch.device = "auto") -> Decoder | None:
    """The decoder that was kept with a run or ships with a model, or None."""
    path = _decoder_path(find_model(name), group)
    if not path.exists():
        return None
    state = read_checkpoint(path)
    try:
        config, tensors = state["config"], state["weights"]
        if config["blocks"] * config["stages"] > len(tensors):
            raise DuetError(f"{len(tensors)} tensors for more blocks")
        with Allowance(tensors.values(), path):
            decoder = Decoder.from_dict(config, tensors)
        check_numbers(decoder)
        return decoder.to(find_device(device))
    except (AttributeError, OverflowError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise DuetError(f"{path} does not hold a decoder: {first_line(error)}") from None


def _decoder_path(folder: Path, group: str) -> Path:
    return folder / "decoders" / f"{group}.safetensors"


def _plain_group(group: Group) -> dict[str, Any]:
    described = group.describe()
    settings = {key: described[key] for key in group.settings}
    return {"name": group.name, "settings": settings, "plugin": home_of(group)}


def _read_group(plain: Mapping[str, Any]) -> Group:
    settings = {str(key): tuple(v) if isinstance(v, list) else v for key, v in plain["settings"].items()}
    return find_group(str(plain["name"])).configured(**settings)


def _read(folder: Path, module: nn.Module | None) -> Encoder:
    config, weights = _config(folder), folder / "model.safetensors"
    try:
        # Saved over another model and cut short in between, the weights would be those of neither.
        if _sha256(weights) != config.get("weights_sha256"):
            raise DuetError("it is damaged, or of another model than the config.json beside it")
        tensors = load_file(weights)  # names and shapes; a tensor takes memory when it is used
    except (OSError, SafetensorError, DuetError) as error:
        raise DuetError(f"cannot read {weights}: {first_line(error)}") from None
    backbone = _read_backbone(folder, config, tensors) if module is None else _as_backbone(module, config, tensors)
    require_plugins(_plugins(config), str(folder))
    try:
        layout = layout_from_dict(config["layout"])
        if layout.dim != backbone.dim:
            raise DuetError(f"{backbone.dim} features in a layout of {layout.dim}")
        _fill(backbone, weights, part_of(tensors, "backbone."))
        head = None
        if config["num_classes"]:
            with Allowance(part_of(tensors, "head.").values(), folder):
                head = OnlineHead(layout.dim, int(config["num_classes"]))
            head.load_state_dict(part_of(tensors, "head."))
        others = in_single({key: value for key, value in tensors.items() if not key.startswith(("backbone.", "head."))})
        encoder = Encoder(
            backbone,
            layout,
            [_read_group(plain) for plain in config["groups"]],
            config["reference"],
            read_actions(config["actions"], others, layout.dim),
            check_size(config["image_size"], folder),
            None if config["classes"] is None else [str(name) for name in config["classes"]],
            head,
            _read_confidences(config, others, layout.dim),
            dict(config["provenance"]),
            config.get("turns", 1),
        )
        check_numbers(encoder)
        return encoder
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError, RuntimeError, ValueError) as error:
        raise DuetError(f"{folder} does not hold a whole duet model: {first_line(error)}") from None


def _as_backbone(module: nn.Module, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Backbone:
    """A Backbone as it is; a plain module with the norm, and perhaps the linear map, that the model has."""
    if isinstance(module, Backbone):
        return module
    mean, norm, projection = (tensors.get(f"backbone.{key}") for key in ("mean", "norm.weight", "map.weight"))
    if mean is None or norm is None:
        raise DuetError("the model's weights are not those of a Backbone, so a plain module cannot stand in for one")
    if projection is not None:
        return wrap(module, channels=len(mean), width=projection.shape[1], dim=len(norm))
    return wrap(module, channels=len(mean), width=len(norm))


def _fill(backbone: Backbone, file: Path, known: Mapping[str, Tensor]) -> None:
    """Copy weights, whose names and shapes are known, into a network: a block at a time is in memory, not the file."""
    strange: set[str] = set()
    missing: set[str] | None = None
    for names in _blocks(known):
        with safe_open(file, framework="pt") as opened:
            part = {name: opened.get_tensor(f"backbone.{name}") for name in names}
            found = backbone.load_state_dict(part, strict=False)
        strange |= set(found.unexpected_keys)
        missing = set(found.missing_keys) if missing is None else missing & set(found.missing_keys)
    odd = sorted((missing or set()) | strange)
    if odd:
        raise ValueError(f"{shown(odd[0])} is in its network or in its weights, and not in both")


def _blocks(known: Mapping[str, Tensor]) -> Iterator[list[str]]:
    """The names, in lists of at most BLOCK bytes or one tensor; an empty list where there are none."""
    block, size = list[str](), 0
    for name, tensor in known.items():
        if block and size + tensor.nbytes > BLOCK:
            yield block
            block, size = [], 0
        block.append(name)
        size += tensor.nbytes
    yield block


def _read_confidences(config: Mapping[str, Any], tensors: Mapping[str, Tensor], dim: int) -> dict[int, Confidence]:
    """What the model knows of its own readings, by turns; models of earlier versions know nothing, or of one turn."""
    told = {1: config.get("confidence")} | {int(turns): own for turns, own in config.get("confidences", {}).items()}
    return {
        turns: Confidence.from_dict(own, part_of(tensors, f"{_place(turns)}."), dim)
        for turns, own in told.items()
        if own is not None
    }


def _place(turns: int) -> str:
    """Where the tensors of a confidence stand: those of one turn where they stood before there were more."""
    return "confidence" if turns == 1 else f"confidences.{turns}"


def _plugins(config: Mapping[str, Any]) -> list[str]:
    """The modules in which its groups were written."""
    groups = config.get("groups")
    found = [group.get("plugin") for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []
    return [name for name in found if isinstance(name, str)]


def _read_backbone(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Backbone:
    recipe = config.get("backbone")
    if recipe is None:
        raise DuetError(f"the backbone of {folder} was a module of its own: build it and give load(..., backbone=it)")
    if not isinstance(recipe, dict) or not isinstance(recipe.get("name"), str):
        raise DuetError(f"{folder} does not say which backbone it has")
    trunk = recipe.get("trunk")
    name = str(trunk.get("name")) if isinstance(trunk, dict) else recipe["name"]
    module = name.partition(":")[0]
    if is_spec(name) and module != "timm" and not trusted(module):
        given = "" if isinstance(trunk, dict) else ", or load(..., backbone=it)"
        raise DuetError(
            f"the backbone of {folder} is {shorten(name, 80)}, a module of its author's: read it, then give "
            f"--plugin {module} (in Python duet.import_plugin({module!r}){given})"
        )
    kinds = {"name": str, "channels": int, "dim": int | None, "stem": str, "zero_init": bool, "trunk": dict}
    odd = [key for key, value in recipe.items() if not isinstance(value, kinds.get(key, ()))]
    if odd:  # what else a builder takes may name files
        raise DuetError(f"{folder} asks for a backbone with an odd {str(odd[0])[:40]!r}")
    try:
        largest = LARGEST_SIDE if trunk is None else LARGEST_ON_TRUNK
        size = check_size(config.get("image_size"), folder, largest)
        sized = {} if size is None else {"image_size": size}
        # The trunk is not in the file, and as large as it is wherever it came from.
        wanted = None if trunk is None else OnTrunk.from_dict(trunk)
        opened = None if wanted is None else open_trunk(wanted, **sized)
        # Two images go through a module of the user's own, to count its features.
        probed = 2 * 4 * math.prod(size or (32, 32)) if is_spec(name) else 0
        with Allowance(part_of(tensors, "backbone.").values(), folder, SPARE + probed):
            if wanted is not None:
                return build_on_trunk(wanted, dim=recipe.get("dim"), trunk=opened)
            return build_backbone(**{**recipe, **sized})
    except DuetError:
        raise
    except (TypeError, ValueError, IndexError, RuntimeError, OverflowError) as error:
        raise DuetError(f"{folder} does not hold a whole duet model: {first_line(error)}") from None


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(2**20):
            digest.update(part)
    return digest.hexdigest()


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.exists():
        hint = "; the run is not finished: duet train --resume" if (folder / "config.yaml").exists() else ""
        raise DuetError(f"no model in {folder}{hint}")
    try:
        config = json.loads(read_settings(path))
    except (OSError, ValueError, RecursionError) as error:
        raise DuetError(f"cannot read {path}: {first_line(error)}") from None
    if not isinstance(config, dict) or "format" not in config:
        raise DuetError(f"{path} is not the configuration of a duet model")
    if config["format"] != FORMAT:
        raise DuetError(f"{path} has format {shorten(repr(config['format']), 40)}; this version reads {FORMAT}")
    return config
