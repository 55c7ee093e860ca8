"""From files, dicts and bundled names to specs with energies."""
