"""Results as files, pages, text on the terminal and figures for notebooks."""

RESULT_FILES = ("timeloop-mapper.map.yaml", "timeloop-mapper.map.txt", "timeloop-mapper.stats.txt",
                "timeloop-mapper.ERT.yaml", "timeloop-mapper.ART.yaml", "fadiff.input.yaml", "fadiff.result.json")
"""All files of a finished run: Timeloop's own files, under their names, and two files of this project."""

PLAN_FILES = ("plan.yaml", "fadiff.network.json", "trace.json", "report.html")
"""The files of a plan outside its subfolders."""

RUN_FILES = ("architecture.yaml", "arch.schema.json", "front.csv", "designs.csv", "fadiff.design.json", "design.html")
"""The files of a search of designs outside its subfolders."""

INFERENCE_FILES = ("operators.csv", "tokens.csv", "fadiff.inference.json", "trace.json", "inference.html")

STORE = "store"  # the subfolder with all evaluated designs, from which a killed search of designs continues
