"""From free parameters to loop nests: Gumbel-Softmax, straight-through gradients, penalties, objective (FADiff)."""
