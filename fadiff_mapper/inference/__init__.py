"""The cost of inference of a language model on a design: time to first token, tokens a second, joules a token."""
