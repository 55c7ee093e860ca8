"""The files of one mapped layer, in the layouts of Timeloop's programs, and a JSON with all results."""

RESULT_FILES = ("timeloop-mapper.map.yaml", "timeloop-mapper.map.txt", "timeloop-mapper.stats.txt",
                "timeloop-mapper.ERT.yaml", "timeloop-mapper.ART.yaml", "fadiff.input.yaml", "fadiff.result.json")
