"""The layer search."""

from fadiff_mapper.search.options import Progress, SearchOptions
from fadiff_mapper.search.run import Found, search
from fadiff_mapper.search.units import Task, search_all

__all__ = ["Found", "Progress", "SearchOptions", "Task", "search", "search_all"]
