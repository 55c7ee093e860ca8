"""What the command line prints: tables, progress and summaries, one file per subject."""
