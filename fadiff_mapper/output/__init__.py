"""Results as text: files for Timeloop and LoopTree, the report of a network, notebooks, the terminal."""
