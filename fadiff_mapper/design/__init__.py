"""The search of a machine: designs proposed, each mapped exactly, the best kept."""
