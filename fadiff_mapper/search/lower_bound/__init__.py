"""Lower bounds on every metric that no legal mapping can undercut, proven, with the source of each part."""
