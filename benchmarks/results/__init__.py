"""Pages of results: runs of benchmarks recorded as data, and pages and plots made of the data."""
