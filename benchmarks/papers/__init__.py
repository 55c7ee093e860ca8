"""The papers' comparisons on the exact model: jobs with records, tables and pictures made of them, one page."""
