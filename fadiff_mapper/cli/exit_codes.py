"""The exit codes of all commands."""

from __future__ import annotations

from fadiff_mapper.base import standard_streams

DONE = 0
"""The command did what it was asked for."""

CHECK_FAILED = 1
"""A check of the command failed: constraints contradict each other, or real Timeloop disagrees."""

BAD_INPUT = 2
"""The input or the arguments are wrong; the error lines say what is accepted."""

INTERRUPTED = standard_streams.INTERRUPTED
"""Ctrl-C ended the command; the best mappings so far are there."""
