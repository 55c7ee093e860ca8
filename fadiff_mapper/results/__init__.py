"""The results of mapping a layer or a network, as values: nothing here searches or writes."""
