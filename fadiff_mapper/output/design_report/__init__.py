"""A designed machine as files: architectures, tables of all designs, mappings, and one page that shows them."""

STORE = "store"
"""The folder, in the output folder, of all that was evaluated: a run that was killed goes on from there."""

RUN_FILES = ("architecture.yaml", "front.csv", "designs.csv", "fadiff.design.json", "design.html")
"""The files of a run as a whole, in the output folder."""
