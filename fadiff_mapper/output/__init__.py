"""Results as text: files for Timeloop and LoopTree, the report of a network, the terminal."""
