"""Results in notebooks: tables of HTML and matplotlib figures."""
