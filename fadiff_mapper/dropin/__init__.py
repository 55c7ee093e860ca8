"""In Timeloop's place: launchers, command lines, files and Python functions under its names, for unchanged scripts."""
