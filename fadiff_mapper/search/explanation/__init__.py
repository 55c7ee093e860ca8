"""What a finished run is due to: the loops behind each count, and the worth of each constant of the machine."""
