"""An inference on the terminal."""

from __future__ import annotations

from fadiff_mapper.inference.infer import InferenceResult
from fadiff_mapper.output.terminal.console import Screen, table
from fadiff_mapper.workload.coverage import folded_in_words


def print_inference(result: InferenceResult, written_to: str) -> None:
    """Prints the numbers of every batch, the units and memories that bound its time, and operations without a cost."""
    out, rows = Screen(), []
    for outcome in result.batches:
        ends = outcome.further_token_s
        bounds = result.shares(outcome.batch, "bound")
        rows.append((outcome.batch, f"{outcome.first_token_s:.4g}",
                     f"{1e3 * ends[0]:.4g} to {1e3 * ends[1]:.4g}" if ends else "-", f"{outcome.tokens_per_s:.4g}",
                     f"{outcome.joules_per_token:.4g}", f"{outcome.cache_words / 1e9:.4g} in {outcome.cache_in}",
                     ", ".join(f"{name} {seconds / outcome.seconds:.0%}" for (name,), (seconds, _) in bounds.items()
                               if seconds)))
    out.print(table(f"{result.model.name} on {result.design}: {result.prompt:,} + {result.generate:,} tokens, "
                    f"{1e-9 / result.cycle_s:.4g} GHz, {result.batches[0].weight_words / 1e9:.4g} G words of weights",
                    "batch", "first token s", "further tokens ms", "tokens/s", "J/token", "cache, G words", "bound by",
                    text=1, rows=rows))
    out.print(result.order)
    for batch, (operators, operations) in result.uncounted().items():
        out.print(f"not counted at batch {batch}: {operations:,} operations of {operators:,} operators without "
                  "multiply-accumulates, as the design has no unit for them")
    if result.folded:
        out.print(f"of one layer of each kind {folded_in_words(result.folded)}")
    out.print(f"{len(result.mapped)} distinct problems mapped; written to {written_to}")
