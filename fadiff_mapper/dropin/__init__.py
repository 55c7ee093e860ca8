"""Replacements for Timeloop: launchers, command lines, files and Python functions under its names."""
