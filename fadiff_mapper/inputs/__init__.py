"""Text to specifications: YAML with places, templates, arithmetic; both dialects; energies; whole inputs."""
