"""The tables, progress and summaries that the command line prints."""
