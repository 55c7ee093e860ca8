"""The numbers that `timeloop-model` computes, for whole batches of mappings."""
