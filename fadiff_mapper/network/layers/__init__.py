"""Every layer by itself, and the choice between energy and cycles for a whole network."""
