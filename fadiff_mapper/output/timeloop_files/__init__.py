"""The files of one mapped layer, in the layouts of Timeloop's programs, and a JSON with all results."""
