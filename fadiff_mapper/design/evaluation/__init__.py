"""The worth of a design: all layers of all networks mapped on it, exactly, each once."""
