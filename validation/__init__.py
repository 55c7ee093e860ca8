"""Real Timeloop as the judge: run it on cases, read its answers, record them for the tests."""
