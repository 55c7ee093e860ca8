"""The version, read from here by setup.cfg and by every output that names the program.

Reading the installed metadata instead would take longer than all other imports of a small command.
"""

__version__ = "0.3.0"
