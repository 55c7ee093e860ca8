"""The compiled module: exact evaluation of mappings (`module.cpp`)."""

from typing import Any

import numpy as np

class Layer:
    def __init__(self, table: dict[str, Any]) -> None: ...

def score(layer: Layer, temporal: np.ndarray, spatial: np.ndarray, order: np.ndarray, keep: np.ndarray,
          on_y: np.ndarray, spatial_order: np.ndarray, room_words: np.ndarray | None, room_counted: np.ndarray | None,
          out: np.ndarray, first: int, last: int, all_: bool) -> None: ...
