"""A trained model on disk: model.safetensors and config.json, nothing that can run code."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from .card import model_card
from .checkpoint import read_checkpoint, write_checkpoint
from .data.decoding import quiet
from .data.input import Pictures, count_pictures, picture_batches
from .data.progress import track
from .experiment import Experiment, from_dict, groups
from .groups import Group
from .groups.group import as_float
from .hub import FILES, find_model, upload
from .networks import Backbone, OnlineHead, build_backbone
from .networks.decoder import Decoder
from .representation import Axis, Estimate, FittedAction, Layout, Representation, layout_from_dict

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
        like = self.backbone.norm.weight
        parts = [
            self.backbone(as_float(part.to(like.device)).to(like.dtype)).cpu() for part in torch.split(images, batch)
        ]
        return torch.cat(parts).clone() if len(images) else torch.empty(0, self.layout.dim)

    def embed(self, images: Pictures, batch_size: int = 256, progress: bool = True) -> Representation:
        """The representation of one image or many: paths, Pillow images, arrays (H,W[,C]), tensors (C,H,W).

        Also arrays (N,H,W[,C]) and tensors (N,C,H,W), uint8 or float in [0,1]. Images of another size or with other
        channels become what training would have made of them. Long work shows a bar with the time left.
        """
        batches = picture_batches(images, self.channels, self.image_size, batch_size)
        with quiet():
            sized = ((len(batch), batch) for batch in batches)
            parts = track(sized, count_pictures(images), "embedding") if progress else (part for _, part in sized)
            features = [self.features(part, batch_size) for part in parts]
        return self.representation(torch.cat(features) if features else torch.empty(0, self.layout.dim))

    def recover(self, representation: Representation, axis: str | Axis | None = None) -> Estimate:
        """The group's raw parameter of every image and its spread, in the group's unit: two (B,) tensors."""
        own = representation.find(axis)
        group, estimate = self.groups[own.name], representation.recover(own)
        width = (group.parameter(1.0) - group.parameter(0.0)).abs()
        return Estimate(group.parameter(estimate.g), estimate.spread * width)

    def representation(self, z: Tensor) -> Representation:
        """Features (B,D) with this model's layout and actions."""
        relative = self.experiment.method == "duet" and self.experiment.reference == "relative"
        return Representation(z, self.layout, self.actions, relative)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the model and its card to a folder; other files in it stay, and so does a card that is there."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target, prefix=".partial-") as partial:
            # A published model does not tell where on a disk its images lay.
            experiment = replace(self.experiment, data=Path(self.experiment.data).name or "images")
            _write(self, Path(partial), experiment)
            card = model_card(experiment, self.layout, self.image_size, self.channels)
            (Path(partial) / "README.md").write_text(card)
            for name in FILES:
                if name != "README.md" or not (target / name).exists():
                    os.replace(Path(partial) / name, target / name)

    @classmethod
    def from_pretrained(
        cls, name: str | os.PathLike[str], *, backbone: Backbone | None = None, **options: Any
    ) -> Encoder:
        """The encoder of a Hub id or a folder; `revision`, `token`, `cache_dir`, ... go to snapshot_download."""
        return _read(find_model(name, **options), backbone)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str = "Upload a duet model",
    ) -> str:
        """Send the model and its card to the Hub, making the repository if needed; returns the commit's address."""
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return upload(Path(folder), repo_id, private, token, commit_message)


def save(encoder: Encoder, folder: Path) -> None:
    """Write a model's folder, all of it or nothing."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    _write(encoder, partial, encoder.experiment)
    if folder.exists():
        old = folder.with_name(folder.name + ".old")
        shutil.rmtree(old, ignore_errors=True)
        os.rename(folder, old)
        os.rename(partial, folder)
        shutil.rmtree(old)
    else:
        os.rename(partial, folder)


def save_decoder(decoder: Decoder, run: Path, group: str) -> None:
    """Keep a decoder of a run's features, trained under a group, with its model."""
    folder = run / "model" if (run / "model").exists() else run
    write_checkpoint({"config": decoder.to_dict(), "weights": decoder.state_dict()}, _decoder_path(folder, group))


def load_decoder(name: str | os.PathLike[str], group: str) -> Decoder | None:
    """The decoder that was kept with a run or ships with a model, or None."""
    path = _decoder_path(find_model(name), group)
    if not path.exists():
        return None
    state = read_checkpoint(path)
    try:
        return Decoder.from_dict(state["config"], state["weights"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} does not hold a decoder: {str(error).splitlines()[0]}") from None


def _decoder_path(folder: Path, group: str) -> Path:
    return folder / "decoders" / f"{group}.safetensors"


def load(name: str | os.PathLike[str], backbone: Backbone | None = None) -> Encoder:
    """The encoder of a run, a model's folder, a shipped name or a Hub id; give the backbone if it was your own."""
    return _read(find_model(name), backbone)


def _write(encoder: Encoder, folder: Path, experiment: Experiment) -> None:
    tensors = {f"backbone.{key}": value for key, value in encoder.backbone.state_dict().items()}
    if encoder.head is not None:
        tensors |= {f"head.{key}": value for key, value in encoder.head.state_dict().items()}
    for name, action in encoder.actions.items():
        tensors |= {f"action.{name}.{key}": value for key, value in action.state_dict().items()}
    config = {
        "format": FORMAT,
        "experiment": experiment.to_dict(),
        "layout": encoder.layout.to_dict(),
        "image_size": list(encoder.image_size),
        "classes": None if encoder.classes is None else list(encoder.classes),
        "num_classes": None if encoder.head is None else encoder.head.linear.out_features,
        "actions": sorted(encoder.actions),
    }
    # Copies, since safetensors refuses tensors that share memory, as tied weights do.
    copies = {key: value.detach().to("cpu", copy=True).contiguous() for key, value in tensors.items()}
    save_file(copies, folder / "model.safetensors")
    (folder / "model.safetensors").chmod(0o644)  # safetensors makes it private to the user
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def _read(folder: Path, backbone: Backbone | None) -> Encoder:
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
        if backbone.dim != layout.dim:
            raise ValueError(f"{backbone.dim} features in a layout of {layout.dim}")
        head = None
        if config["num_classes"]:
            head = OnlineHead(layout.dim, int(config["num_classes"]))
            head.load_state_dict(_part(tensors, "head."))
        actions = {
            str(name): FittedAction.from_state_dict(_part(tensors, f"action.{name}."), layout.dim)
            for name in config["actions"]
        }
        strange = [axis.name for axis in layout.axes if axis.name not in experiment.group]
        if strange:
            raise ValueError(f"columns for {strange[0]!r}, which is not among its groups")
        size = (int(config["image_size"][0]), int(config["image_size"][1]))
        classes = tuple(str(name) for name in config["classes"]) if config["classes"] is not None else None
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError, RuntimeError, ValueError) as error:
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
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot read {path}: {error}") from None
    if not isinstance(config, dict) or not isinstance(config.get("experiment"), dict):
        raise ValueError(f"{path} is not the configuration of a duet model")
    if config.get("format") != FORMAT:
        raise ValueError(f"{path} has format {config.get('format')!r}; this version reads {FORMAT}")
    return config


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
