"""Where the numbers of a finished run come from."""

from fadiff_mapper.explain.counts import Correction, Explanation, Factor, explain_counts
from fadiff_mapper.explain.folder import Run, read_run
from fadiff_mapper.explain.run import Explained, explain_run

__all__ = ["Correction", "Explained", "Explanation", "Factor", "Run", "explain_counts", "explain_run", "read_run"]
