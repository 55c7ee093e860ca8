"""Every layer by itself, and the trade between energy and cycles for a whole network."""
