"""The results of mapping a layer or a network, as values."""
