"""The files of a mapped network: plan, JSON, and one page with drawings."""
