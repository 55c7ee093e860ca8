"""The plan: candidates mapped exactly, chosen, refined and checkpointed."""
