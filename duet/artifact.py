"""A trained model on disk: model.safetensors and config.json, nothing that can run code."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from .checkpoint import read_checkpoint, write_checkpoint
from .experiment import Experiment, from_dict, groups
from .groups import Group
from .groups.group import as_float
from .networks import Backbone, OnlineHead, build_backbone
from .networks.decoder import Decoder
from .representation import FittedAction, Layout, Representation, layout_from_dict

FORMAT = 1


class Encoder(nn.Module):
    """A trained backbone with the layout of its features, its groups and their fitted actions."""

    def __init__(
        self,
        backbone: Backbone,
        layout: Layout,
        experiment: Experiment,
        image_size: tuple[int, int],
        head: OnlineHead | None = None,
        actions: dict[str, FittedAction] | None = None,
        classes: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.layout = layout
        self.experiment = experiment
        self.image_size = image_size
        self.actions = dict(actions or {})
        self.classes = classes
        self.eval()

    @property
    def groups(self) -> dict[str, Group]:
        """The groups that the model was trained with, by name."""
        return {group.name: group for group in groups(self.experiment)}

    @property
    def channels(self) -> int:
        """Channels of the images that it takes."""
        return self.backbone.channels

    def forward(self, images: Tensor) -> Tensor:
        """Features of images in [0,1]: (B,C,H,W) -> (B,D)."""
        return self.backbone(images)  # type: ignore[no-any-return]

    @torch.inference_mode()
    def features(self, images: Tensor, batch: int = 512) -> Tensor:
        """Features of many images, uint8 or float in [0,1], a batch at a time, on the CPU: (N,C,H,W) -> (N,D)."""
        device = self.backbone.norm.weight.device
        parts = [self.backbone(as_float(part.to(device))).cpu() for part in torch.split(images, batch)]
        return torch.cat(parts).clone() if parts else torch.empty(0, self.layout.dim)

    def embed(self, images: Tensor) -> Representation:
        """The representation of images: (N,C,H,W) uint8 or float in [0,1]."""
        return self.representation(self.features(images))

    def representation(self, z: Tensor) -> Representation:
        """Features (B,D) with this model's layout and actions."""
        relative = self.experiment.method == "duet" and self.experiment.reference == "relative"
        return Representation(z, self.layout, self.actions, relative)


def save(encoder: Encoder, folder: Path) -> None:
    """Write a model's folder, all of it or nothing."""
    tensors = {f"backbone.{key}": value for key, value in encoder.backbone.state_dict().items()}
    if encoder.head is not None:
        tensors |= {f"head.{key}": value for key, value in encoder.head.state_dict().items()}
    for name, action in encoder.actions.items():
        tensors |= {f"action.{name}.{key}": value for key, value in action.state_dict().items()}
    config = {
        "format": FORMAT,
        "experiment": encoder.experiment.to_dict(),
        "layout": encoder.layout.to_dict(),
        "image_size": list(encoder.image_size),
        "classes": None if encoder.classes is None else list(encoder.classes),
        "num_classes": None if encoder.head is None else encoder.head.linear.out_features,
        "actions": sorted(encoder.actions),
    }
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_file({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, partial / "model.safetensors")
    (partial / "model.safetensors").chmod(0o644)  # safetensors makes it private to the user
    (partial / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if folder.exists():
        old = folder.with_name(folder.name + ".old")
        shutil.rmtree(old, ignore_errors=True)
        os.rename(folder, old)
        os.rename(partial, folder)
        shutil.rmtree(old)
    else:
        os.rename(partial, folder)


def save_decoder(decoder: Decoder, run: Path, group: str) -> None:
    """Keep a decoder of a run's features, trained under a group."""
    write_checkpoint({"config": decoder.to_dict(), "weights": decoder.state_dict()}, _decoder_path(run, group))


def load_decoder(run: str | os.PathLike[str], group: str) -> Decoder | None:
    """The decoder that `save_decoder` kept, or None."""
    path = _decoder_path(Path(run), group)
    if not path.exists():
        return None
    state = read_checkpoint(path)
    try:
        return Decoder.from_dict(state["config"], state["weights"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} does not hold a decoder: {str(error).splitlines()[0]}") from None


def _decoder_path(run: Path, group: str) -> Path:
    return run / "decoders" / f"{group}.safetensors"


def load(path: str | os.PathLike[str], backbone: Backbone | None = None) -> Encoder:
    """The encoder of a run's or a model's folder; give the backbone if it was one of your own."""
    folder = Path(path)
    folder = folder / "model" if (folder / "model" / "config.json").exists() else folder
    config = _config(folder)
    experiment = from_dict(config["experiment"], f"{folder / 'config.json'}")
    try:
        tensors = load_file(folder / "model.safetensors")
    except (OSError, SafetensorError) as error:
        raise ValueError(f"cannot read {folder / 'model.safetensors'}: {error}") from None
    try:
        layout = layout_from_dict(config["layout"])
        backbone = backbone or build_backbone(experiment.encoder, channels=experiment.channels, dim=experiment.dim)
        backbone.load_state_dict(_part(tensors, "backbone."))
        head = None
        if config["num_classes"]:
            head = OnlineHead(layout.dim, int(config["num_classes"]))
            head.load_state_dict(_part(tensors, "head."))
        actions = {str(n): FittedAction.from_state_dict(_part(tensors, f"action.{n}.")) for n in config["actions"]}
        size = (int(config["image_size"][0]), int(config["image_size"][1]))
        classes = tuple(str(name) for name in config["classes"]) if config["classes"] is not None else None
    except (KeyError, TypeError, IndexError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{folder} does not hold a whole duet model: {reason}") from None
    return Encoder(backbone, layout, experiment, size, head, actions, classes)


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.exists():
        hint = "; the run is not finished: duet train --resume" if (folder / "config.yaml").exists() else ""
        raise ValueError(f"no model in {folder}{hint}")
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {path}: {error}") from None
    if not isinstance(config, dict) or not isinstance(config.get("experiment"), dict):
        raise ValueError(f"{path} is not the configuration of a duet model")
    if config.get("format") != FORMAT:
        raise ValueError(f"{path} has format {config.get('format')!r}; this version reads {FORMAT}")
    return config


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
