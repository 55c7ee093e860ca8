"""The files of a mapped network: plan, JSON, and one page with drawings."""

PLAN_FILES = ("plan.yaml", "fadiff.network.json", "report.html")
"""The files of a plan as a whole, in the output folder."""
