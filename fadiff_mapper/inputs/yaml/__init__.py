"""Text to values that remember file, line and path, and back: YAML, sandboxed templates, safe arithmetic."""
