"""The results of a run as texts: one self-contained page, Markdown, JSON and CSV."""

from .files import report_files

__all__ = ["report_files"]
