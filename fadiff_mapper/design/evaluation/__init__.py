"""What a design is worth: all layers of all networks mapped on it, exactly, each once."""
