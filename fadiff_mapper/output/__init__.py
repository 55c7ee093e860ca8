"""Results as files, pages, text on the terminal and figures for notebooks."""

RESULT_FILES = ("timeloop-mapper.map.yaml", "timeloop-mapper.map.txt", "timeloop-mapper.stats.txt",
                "timeloop-mapper.ERT.yaml", "timeloop-mapper.ART.yaml", "fadiff.input.yaml", "fadiff.result.json")
"""All files of a finished run: Timeloop's own files, under their names, and two more of this project."""

PLAN_FILES = ("plan.yaml", "fadiff.network.json", "report.html")
"""The files of a plan as a whole, in the output folder."""

RUN_FILES = ("architecture.yaml", "front.csv", "designs.csv", "fadiff.design.json", "design.html")
"""The files of a search of designs as a whole, in the output folder."""

STORE = "store"
"""The folder, in the output folder, of all that a search of designs evaluated: a run that was killed goes on from
there."""
