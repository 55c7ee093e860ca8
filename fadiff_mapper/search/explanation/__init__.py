"""The causes of a finished run: the loops behind each count, and the worth of each constant of the machine."""
