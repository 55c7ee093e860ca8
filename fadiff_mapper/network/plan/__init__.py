"""The plan: candidate groups mapped exactly, chosen, refined and checkpointed."""
