"""The loops behind each count of a finished run, with its bound and sensitivities."""
