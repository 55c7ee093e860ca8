"""A designed machine as files: architectures, tables of all designs, mappings, and one page that shows them."""
