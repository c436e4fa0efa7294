"""Windows that differ by layer, as ``config.json`` states them: ``layer_types`` and ``sliding_window``."""

from __future__ import annotations

from collections.abc import Sequence

from tfcore.config import ModelConfig
from tfcore.io.family import Json

FULL, SLIDING = "full_attention", "sliding_attention"


def windows_from(json: Json, usual: Sequence[str]) -> list[int | None]:
    """Read the window of each layer.

    Args:
        json: the fields, with ``sliding_window``; ``layer_types`` may be missing or null.
        usual: the kind of each layer, if ``layer_types`` is missing.

    Returns:
        The window of each layer, None where it sees all tokens.

    Raises:
        ValueError: another number of layers than ``num_hidden_layers``, or a kind that is not known.

    >>> windows_from({"num_hidden_layers": 2, "sliding_window": 5}, [FULL, SLIDING])
    [None, 5]
    """
    kinds, number, window = (
        json.get("layer_types") or usual,
        json["num_hidden_layers"],
        json["sliding_window"],
    )
    if len(kinds) != number or not set(kinds) <= {FULL, SLIDING}:
        raise ValueError(
            f"expected layer_types as {number} times {FULL} or {SLIDING}, got {kinds}; "
            "the other kinds are not built"
        )
    return [window if kind == SLIDING else None for kind in kinds]


def json_of_windows(config: ModelConfig) -> Json:
    """Write ``layer_types``, and the first window as ``sliding_window``.

    >>> from tfcore.models.presets import preset
    >>> json_of_windows(preset("gpt2-tiny").with_windows([None, 5]))
    {'layer_types': ['full_attention', 'sliding_attention'], 'sliding_window': 5}
    """
    return {
        "layer_types": [FULL if window is None else SLIDING for window in config.windows],
        "sliding_window": next((window for window in config.windows if window is not None), None),
    }
