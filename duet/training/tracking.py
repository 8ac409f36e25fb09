"""Where a training is logged beside its own metrics.csv."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..error import DuetError, first_line
from ..installation import install_command


def open_logger(track: str | None, run: Path) -> Any:
    """Lightning's logger of that name, ready to log, or None; one line says what it lacks."""
    if track is None:
        return None
    from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger

    try:
        if track == "tensorboard":
            return TensorBoardLogger(run, name="", version="tensorboard")
        if track == "wandb":
            logger = WandbLogger(save_dir=run, name=run.name)
            _ = logger.experiment  # it logs in now, and not in the middle of the training
            return logger
    except ModuleNotFoundError:
        raise DuetError(f"tracking with {track} needs more packages: {install_command('track')}") from None
    except Exception as error:  # of many kinds: no key, no network, no project
        raise DuetError(f"cannot track with {track}: {first_line(error)}") from None
    raise DuetError(f"track must be tensorboard or wandb, not {track!r}")
