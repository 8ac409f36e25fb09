"""A trained model: a backbone, the layout of its features, its groups and actions; not how it was configured."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from ..data.decoding import quiet
from ..data.input import Pictures, count_pictures, picture_batches
from ..error import DuetError
from ..groups import Group, find_group
from ..networks import Backbone, OnlineHead
from ..networks.digest import fingerprint
from ..pixels import as_float
from ..progress import track
from ..representation import Action, Axis, Layout, RawScale, Representation
from ..representation.prescribed import Reference
from ..representation.storage import Actions
from .confidence import SURE, Confidence
from .provenance import without_places
from .reading import Reading
from .turns import look_around, turning_axis


class Encoder(nn.Module):
    """A backbone with the layout of its features, its groups and actions.

    `groups`: groups or their names. `actions`: by group, one action or several by kind. `image_size`: (H, W) or a side;
    None takes images as they are. `confidence`: what it knows of its own readings, with its own turns or, as a mapping,
    with several numbers of them. `provenance`: plain values that say where it comes from; `data` among them names the
    images it was trained on, so that it can be evaluated on them. `turns`: turned copies of an image that it looks at.
    """

    def __init__(
        self,
        backbone: Backbone,
        layout: Layout,
        groups: Iterable[Group | str],
        reference: Reference = "absolute",
        actions: Mapping[str, Action | Mapping[str, Action]] | None = None,
        image_size: int | tuple[int, int] | None = None,
        classes: Iterable[str] | None = None,
        head: OnlineHead | None = None,
        confidence: Confidence | Mapping[int, Confidence] | None = None,
        provenance: Mapping[str, Any] | None = None,
        turns: int = 1,
    ) -> None:
        super().__init__()
        if not isinstance(backbone, Backbone):
            raise DuetError("an Encoder takes a Backbone; make one of your module with duet.networks.wrap(module)")
        if backbone.dim != layout.dim:
            raise DuetError(f"{backbone.dim} features in a layout of {layout.dim}")
        if reference not in ("absolute", "relative"):
            raise DuetError(f"reference must be 'absolute' or 'relative', not {reference!r}")
        found = groups.values() if isinstance(groups, Mapping) else [groups] if isinstance(groups, str) else groups
        self.backbone = backbone
        self.head = head
        self.layout = layout
        self.groups: dict[str, Group] = {group.name: group for group in map(find_group, found)}
        strange = [axis.name for axis in layout.axes if axis.name not in self.groups]
        if strange:
            raise DuetError(f"columns for {strange[0]!r}, which is not among its groups")
        self.reference = reference
        self.image_size = (image_size, image_size) if isinstance(image_size, int) else image_size
        if self.image_size is not None and not all(isinstance(side, int) and side > 0 for side in self.image_size):
            raise DuetError(f"image_size is a side or (height, width) in pixels, not {image_size!r}")
        self.classes = None if classes is None else tuple(classes)
        self.provenance = dict(provenance or {})
        self._actions = nn.ModuleDict()
        for name, own in (actions or {}).items():
            for action in own.values() if isinstance(own, Mapping) else [own]:
                self.add_action(name, action)
        self.turns = turns
        self._confidences = nn.ModuleDict()
        known = confidence if isinstance(confidence, Mapping) else {} if confidence is None else {turns: confidence}
        for count, own_confidence in known.items():
            self.add_confidence(own_confidence, count)
        self.eval()

    def __repr__(self) -> str:
        axes = ", ".join(f"{axis.name}: {axis.bins} bins" for axis in self.layout.axes)
        size = "any size" if self.image_size is None else "x".join(str(side) for side in reversed(self.image_size))
        made = self.backbone.recipe["name"] if self.backbone.recipe else type(self.backbone.body).__name__
        return (
            f"Encoder({made}, {size}x{self.channels} -> {self.layout.dim} features"
            f"{f', {axes}' if axes else ''}, groups: {', '.join(self.groups) or 'none'}"
            f"{f', {self.turns} turns' if self.turns > 1 else ''})"
        )

    @property
    def channels(self) -> int:
        """Channels of the images that it takes."""
        return self.backbone.channels

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.backbone.norm.weight.device

    @property
    def turns(self) -> int:
        """Turned copies of an image that it looks at; set it to 1 for speed."""
        return self._turns

    @turns.setter
    def turns(self, turns: int) -> None:
        self._turning = turning_axis(turns, self.layout.axes, self.groups, self.image_size)
        self._turns = turns

    @contextmanager
    def looking(self, turns: int) -> Iterator[None]:
        """Look at so many turned copies for a while."""
        before, self.turns = self.turns, turns
        try:
            yield
        finally:
            self.turns = before

    @property
    def confidence(self) -> Confidence | None:
        """What it knows of its readings with its present turns; None where it was not calibrated with so many."""
        return self.confidences.get(self.turns)

    @property
    def confidences(self) -> dict[int, Confidence]:
        """What it knows of its readings, by the number of turns."""
        return {int(turns): own for turns, own in self._confidences.items() if isinstance(own, Confidence)}

    @property
    def relative(self) -> bool:
        """Does it know differences only?"""
        return self.reference == "relative" and bool(self.layout.axes)

    @property
    def actions(self) -> Actions:
        """Its actions by group and kind; "prescribed" comes with every table."""
        return {name: dict(own.items()) for name, own in self._actions.items()}  # type: ignore[operator]

    @property
    def description(self) -> dict[str, Any]:
        """What a result says of whose it is."""
        told = {key: self.provenance.get(key) for key in ("method", "lambda", "epochs", "training_seed")}
        told |= {"turns": self.turns} if self.turns > 1 else {}
        return {**told, "reference": self.reference if self.layout.axes else None, "layout": self.layout.to_dict()}

    @property
    def digest(self) -> str | None:
        """A short fingerprint of its weights and turns as they are now: results of others are not taken for these."""
        own = {key: value for key, value in self.state_dict().items() if not key.startswith("_confidences.")}
        if self.confidence is not None:
            own |= {f"confidence.{key}": value for key, value in self.confidence.state_dict().items()}
        if self.turns > 1:
            own["turns"] = torch.tensor([self.turns])
        return fingerprint(own)

    def add_action(self, group: str, action: Action) -> None:
        """Give a group an action that was fitted to these features."""
        if group not in self.groups:
            raise DuetError(f"an action of {group!r}, which is not among its groups: {', '.join(self.groups)}")
        if not isinstance(action, nn.Module):
            raise DuetError(f"{type(action).__name__} has no tensors to keep; the prescribed action comes by itself")
        if group not in self._actions:
            self._actions[group] = nn.ModuleDict()
        own = self._actions[group]
        assert isinstance(own, nn.ModuleDict)
        own[action.name] = action.to(self.device)

    def add_confidence(self, confidence: Confidence, turns: int | None = None) -> None:
        """Give it a confidence that was fitted to its features and readings with so many turns, else its own."""
        turns = self.turns if turns is None else turns
        turning_axis(turns, self.layout.axes, self.groups, self.image_size)
        if self.relative:
            raise DuetError("this model knows differences only: a reading of one image is neither right nor wrong")
        strange = [name for name in confidence.axes if name not in [axis.name for axis in self.layout.axes]]
        if strange or len(confidence.mean) != self.layout.dim:
            what = f"of {strange[0]!r}" if strange else f"of {len(confidence.mean)} features"
            raise DuetError(f"a confidence {what} does not fit a layout of {self.layout.dim} features")
        self._confidences[str(turns)] = confidence.to(self.device)

    def forward(self, images: Tensor) -> Tensor:
        """Features of images in [0,1]: (B,C,H,W) -> (B,D); what its groups hide it does not look at."""
        for group in self.groups.values():
            images = group.mask(images)
        if self._turning is None:
            return self.backbone(images)  # type: ignore[no-any-return]
        group = self.groups[self._turning.name]
        return look_around(self.backbone, images, self.turns, self.layout, self._turning, group)

    @torch.inference_mode()
    def features(self, images: Tensor, batch: int = 512) -> Tensor:
        """Features of many images, uint8 or float in [0,1], a batch at a time, on its device: (N,C,H,W) -> (N,D)."""
        like = self.backbone.norm.weight
        if not len(images):
            return like.new_empty(0, self.layout.dim)
        shown = torch.split(images, max(1, batch // self.turns))  # as many pixels at a time, with turned copies too
        parts = [self(as_float(part.to(like.device)).to(like.dtype)) for part in shown]
        return torch.cat(parts).clone()

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
        return self.representation(torch.cat(features) if features else self.features(torch.empty(0)))

    def representation(self, z: Tensor) -> Representation:
        """Features (B,D) with this model's layout and actions."""
        scales = {name: RawScale(group.unit, *map(float, group.span)) for name, group in self.groups.items()}
        return Representation(z, self.layout, self.actions, self.relative, scales)

    def recover(
        self,
        representation: Representation | Tensor,
        axis: str | Axis | None = None,
        sure: float = SURE,
        among: Tensor | None = None,
    ) -> Reading:
        """The group's element of every image, its raw value with the spread in the group's unit, and how sure it is.

        `sure` is the probability from which on a reading counts as that. With `among` (K,), in units of g, the best of
        these elements is read.
        """
        if isinstance(representation, Tensor):
            representation = self.representation(representation)
        own = representation.find(axis)
        group, estimate = self.groups[own.name], representation.recover(own, among)
        width = (group.parameter(1.0) - group.parameter(0.0)).abs().to(estimate.spread)
        found = (estimate.g, group.parameter(estimate.g), estimate.spread * width, group.unit)
        if self.confidence is None or own.name not in self.confidence.axes:
            return Reading(*found, unknown=own.flat(estimate.spread))
        z, g = representation.flat.to(self.device), estimate.g.to(self.device)
        masses = representation.marginal(own).to(self.device)
        probability = self.confidence.probability(own, masses, g).to(estimate.spread)
        known = (self.confidence.strangeness(z) <= 1).to(estimate.g.device)
        certain = known & (probability >= sure)
        return Reading(*found, unknown=~certain, probability=probability, known=known, sure=certain)

    def save(self, folder: str | os.PathLike[str], *, public: bool = False, half: bool = False) -> Path:
        """Write the model and its card to a folder; other files in it stay, and so does a card that is there.

        A public model does not tell where on a disk its images lay. `half`: in half precision, where that keeps a
        tensor to a thousandth; it is loaded as float32, and its features move by some thousandths.
        """
        from .artifact import write_model

        told = without_places(self.provenance) if public else self.provenance
        return write_model(self, Path(folder), told, half)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool | None = None,
        token: str | None = None,
        commit_message: str = "Upload a duet model",
    ) -> str:
        """Send the model and its card to the Hub, making the repository if needed; returns the commit's address."""
        from .hub import upload

        with TemporaryDirectory() as folder:
            self.save(folder, public=True)
            return upload(Path(folder), repo_id, private, token, commit_message)
