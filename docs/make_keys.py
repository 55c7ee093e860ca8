"""Writes the page of keys from the tables that the readers read."""

from pathlib import Path

from fadiff_mapper.output.schema import reference

Path(__file__).with_name("reference").joinpath("keys.md").write_text(reference(), encoding="utf-8")
