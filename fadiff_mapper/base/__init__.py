"""Programs, files, signals and errors: nothing of Timeloop."""
