"""What the inference of a language model costs on a design: time to first token, tokens a second, joules a token."""
