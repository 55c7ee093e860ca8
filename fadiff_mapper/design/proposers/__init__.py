"""Proposers of designs: by lower bounds, at random, all of them, by a tree of estimators, or by a genetic algorithm."""
