"""The layer search."""

from fadiff_mapper.search.diagnosis import diagnosis
from fadiff_mapper.search.exhaustive import LIMIT, refuse_large
from fadiff_mapper.search.options import Progress, SearchOptions
from fadiff_mapper.search.run import Found, search
from fadiff_mapper.search.units import Task, search_all

__all__ = ["LIMIT", "Found", "Progress", "SearchOptions", "Task", "diagnosis", "refuse_large", "search", "search_all"]
