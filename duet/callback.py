"""OnlineEquivariance: a Lightning callback that scores the encoder of any module while it is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.utilities.seed import isolate_rng
from torch import Tensor

from .error import DuetError, did_you_mean
from .groups import Group, find_group
from .metrics import EquivarianceSpectrum, check_circle
from .networks.mode import in_evaluation_mode
from .pixels import check_shape, check_values
from .representation.views import FEWEST

FeaturesOf = Callable[[L.LightningModule, Tensor], Tensor]


class OnlineEquivariance(Callback):
    """Scores an encoder every few epochs and logs `equivariance/...`, as `EquivarianceSpectrum` names its numbers.

    images: (N, C, H, W), uint8 or float in [0, 1], as the encoder takes them; the same views of them every time.
    encoder: the name of the module's attribute that turns images into features (B, D), such as "encoder" or
    "model.backbone", or a function of the module and images. every: epochs between two scores. views: of each image.

    The training does not notice: no random number is drawn from its generators, every part stays in training or
    evaluation mode as it was, and no gradient is touched. Several processes share the images.
    """

    def __init__(
        self,
        images: Tensor,
        group: str | Group,
        encoder: str | FeaturesOf = "encoder",
        every: int = 1,
        views: int = 4,
        seed: int = 0,
        batch: int = 256,
        harmonics: int = 4,
    ) -> None:
        super().__init__()
        check_shape(images)
        check_values(images)
        self.group = find_group(group)
        check_circle(self.group)
        self.group.check_channels(images)
        if len(images) < FEWEST:
            raise DuetError(f"a spectrum needs at least {FEWEST} images, not {len(images)}")
        for name, value, least in (("every", every, 1), ("views", views, 2), ("batch", batch, 1)):
            if value < least:
                raise DuetError(f"{name} starts at {least}; got {value}")
        self.images, self.encoder, self.every, self.views = images, encoder, every, views
        self.seed, self.batch, self.harmonics = seed, batch, harmonics

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        """Refuse a module without that encoder before anything long begins."""
        self._features_of(pl_module)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Score and log, every `every` epochs."""
        if (trainer.current_epoch + 1) % self.every == 0:
            scores = self.score(trainer, pl_module)
            named = {f"equivariance/{name}": value for name, value in scores.items()}
            pl_module.log_dict(named, sync_dist=trainer.world_size > 1)

    def score(self, trainer: L.Trainer, module: L.LightningModule) -> dict[str, float]:
        """The scores of the module as it is now, the same in every process."""
        features = self._features_of(module)
        metric = EquivarianceSpectrum(self.group, harmonics=self.harmonics).to(module.device)
        precision = trainer.precision_plugin
        with isolate_rng(), torch.no_grad(), in_evaluation_mode(module), precision.forward_context():
            for rows, g in self._views(trainer.global_rank, trainer.world_size):
                images = self.group.apply(self.images[rows].to(module.device), g)
                z = features(precision.convert_input(images))
                if not isinstance(z, Tensor) or z.ndim != 2 or len(z) != len(rows):
                    got = f"{tuple(z.shape)}" if isinstance(z, Tensor) else f"a {type(z).__name__}"
                    hint = "give encoder= a function of the module and images that does"
                    raise DuetError(
                        f"an encoder returns features (B, D), this one {got} for {len(rows)} images; {hint}"
                    )
                metric.update(z.float(), rows.to(z.device), g.to(z.device))
        return metric.compute()

    def _views(self, rank: int, world: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Which images, and at which elements, this process looks at: (B,), (B,) of every batch."""
        generator = torch.Generator().manual_seed(self.seed)
        rows = torch.arange(len(self.images)).repeat_interleave(self.views)
        g = self.group.sample(len(rows), generator)
        return zip(torch.split(rows[rank::world], self.batch), torch.split(g[rank::world], self.batch), strict=True)

    def _features_of(self, module: L.LightningModule) -> Callable[[Tensor], Tensor]:
        if not isinstance(self.encoder, str):
            own = self.encoder
            return lambda images: own(module, images)
        try:
            found = attrgetter(self.encoder)(module)
        except AttributeError:
            known = [name for name, _ in module.named_modules() if name]
            hint = (
                did_you_mean(self.encoder, known)
                or f"; it has {', '.join(name for name, _ in module.named_children())}"
            )
            raise DuetError(f"{type(module).__name__} has no {self.encoder!r}{hint}") from None
        if not callable(found):
            raise DuetError(f"{self.encoder!r} of {type(module).__name__} cannot be called on images")
        function: Callable[[Tensor], Tensor] = found
        return function
