"""Where a model is found: in a folder, among those that are shipped, or on the Hugging Face Hub."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..error import DuetError, did_you_mean, first_line
from ..file import does_not_exist, from_home

MODELS = Path(__file__).parents[1] / "models"
FILES = ("config.json", "model.safetensors", "README.md")
"""All that is ever written to the Hub or read from it: nothing that can run code."""
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def shipped_models() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(path.parent.name for path in MODELS.glob("*/config.json"))


def find_model(name: str | os.PathLike[str], **options: Any) -> Path:
    """The folder of a model: of a shipped name, a run, a model's folder, or a Hub id (`options` go to the download).

    A shipped name comes before a folder: write ./digits-rot360, or give a Path, for a folder that is called so too.
    """
    text = os.fspath(name)
    if isinstance(name, str) and text in shipped_models():
        return MODELS / text
    folder = from_home(text)
    if folder.exists():
        if not folder.is_dir():
            raise DuetError(f"{text} is a file; a model is a folder with config.json and model.safetensors")
        return folder / "model" if (folder / "model" / "config.json").exists() else folder
    if isinstance(name, str) and _HUB_ID.fullmatch(text) and not text.startswith((".", "-")):
        return _download(text, options)
    if os.path.dirname(text):
        raise DuetError(f"no model {text!r}: {does_not_exist(text)}")
    names = shipped_models()
    hint = did_you_mean(text, names) or did_you_mean(text, _folders())
    raise DuetError(f"no model {text!r}{hint}: no such folder, and no shipped model of that name ({', '.join(names)})")


def _folders() -> list[str]:
    """The folders in the working folder."""
    with suppress(OSError):
        return sorted(path.name for path in Path().iterdir() if path.is_dir())
    return []


def upload(folder: Path, repo_id: str, private: bool | None, token: str | None, message: str) -> str:
    """Make the repository if needed and send the model's files; a model card that is there already stays."""
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    try:
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        kept = ["README.md"] if api.file_exists(repo_id, "README.md") else []
        files = [name for name in FILES if name not in kept]
        done = api.upload_folder(repo_id=repo_id, folder_path=folder, allow_patterns=files, commit_message=message)
    except Exception as error:  # The Hub's client raises its own kinds and those of its transport.
        raise DuetError(f"cannot push to {repo_id!r} on the Hub: {_reason(error)}") from None
    return str(getattr(done, "commit_url", done))


def _download(repo_id: str, options: dict[str, Any]) -> Path:
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(repo_id, allow_patterns=list(FILES), **options))
    except Exception as error:
        raise DuetError(
            f"no model {repo_id!r}: {does_not_exist(repo_id)}, and it cannot be had from the Hub ({_reason(error)})"
        ) from None
    if not (folder / "config.json").exists():
        raise DuetError(f"{repo_id!r} on the Hub is not a duet model: it has no config.json")
    return folder


def _reason(error: Exception) -> str:
    """What went wrong in few words: the client's own messages fill a screen."""
    known = {
        "OfflineModeIsEnabled": "offline mode is on",
        "LocalEntryNotFoundError": "it cannot be reached and no copy is kept here",
        "ConnectError": "it cannot be reached",
        "ConnectTimeout": "it cannot be reached",
        "RepositoryNotFoundError": "there is no such repository, or it is private",
        "GatedRepoError": "its owner has to give you access",
        "RevisionNotFoundError": "there is no such revision",
    }
    for kind in type(error).__mro__:
        if kind.__name__ in known:
            return known[kind.__name__]
    return first_line(error)
