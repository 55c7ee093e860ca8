"""A mapper for Timeloop: reads its files, evaluates mappings exactly, and finds good ones by gradient descent."""
