"""Programs, files, signals and errors, without any notion of Timeloop."""
