"""Words that study files and records used before, and the words that replaced them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ..error import DuetError, did_you_mean, shown

log = logging.getLogger(__name__)

KEYS = {"sizes": "effort", "rivals": "baselines", "beside_rivals": "beside_baselines"}
EFFORTS = {"demo": "standard"}
KNOWN_EFFORTS = ("quick", "standard", "paper")


def rename_keys(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Replace the former words of a study file, and advise the new ones in one line."""
    advice: list[str] = []
    renamed: dict[str, Any] = {}
    for key, value in values.items():
        new = KEYS.get(key, key)
        if new != key:
            if new in values:
                raise DuetError(f"{source} has both {key} and {new}, which is its new name; remove {key}")
            advice.append(f"{new} instead of {key}")
        if new == "effort" and isinstance(value, str) and value in EFFORTS:
            advice.append(f"effort: {EFFORTS[value]} instead of {value}")
            value = EFFORTS[value]
        renamed[new] = value
    if advice:
        log.warning("%s uses former names, which still work; write %s", source, ", ".join(advice))
    return renamed


def rename_record(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The plain values of a record of format 1 in the words of format 2."""
    renamed = {KEYS.get(key, key): value for key, value in plain.items()}
    effort = renamed.get("effort")
    return {**renamed, "effort": EFFORTS.get(effort, effort) if isinstance(effort, str) else effort}


def check_effort(effort: Any, source: str) -> str:
    """Refuse an effort that is unknown."""
    if effort not in KNOWN_EFFORTS:
        hint = did_you_mean(str(effort), KNOWN_EFFORTS)
        raise DuetError(f"{source}: no effort {shown(effort)}{hint}; there are {', '.join(KNOWN_EFFORTS)}")
    return str(effort)
