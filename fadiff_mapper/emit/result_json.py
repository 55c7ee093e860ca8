"""The outcome of a run as JSON: for other programs, and for asking later where a number came from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.emit.versions import versions
from fadiff_mapper.load import Spec
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.native.mapping import literal_mapping
from fadiff_mapper.stats import Stats


@dataclass(frozen=True)
class Improvement:
    """A point of the search's history: the best `metric` after so many evaluations and seconds."""

    time_s: float
    evaluations: int
    metric: float


def result_json(spec: Spec, mapping: Mapping | None, stats: Stats | None, *, status: str,
                history: Sequence[Improvement] = (), seed: int | None = None,
                options: AnyMapping[str, Any] | None = None, timing: AnyMapping[str, float] | None = None) -> str:
    """The result of one layer as JSON text.

    `status` is the sentence in which the run ended; `options` must be JSON values. All seconds, those of the
    history too, stand under `timing`: the rest of the text is the same whenever the same versions run with the
    same seed. Without a mapping, `mapping` and `stats` are null. What is not finite is null.
    """
    result = {
        "status": status,
        "mapping": None if mapping is None else literal_mapping(mapping, spec.arch, spec.problem),
        "stats": None if stats is None else stats.to_dict(),
        "energy_source": spec.tables.source,
        "history": [{"evaluations": point.evaluations, "metric": point.metric} for point in history],
        "seed": seed,
        "options": dict(options or {}),
        "files": list(spec.files),
        "notes": list(spec.notes),
        "versions": versions(),
        "timing": {**(timing or {}), "history_s": [point.time_s for point in history]},
    }
    return json.dumps(_finite(result), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """JSON has no infinity: numbers without a finite value become null."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
