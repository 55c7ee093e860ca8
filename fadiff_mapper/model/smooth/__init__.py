"""The differentiable form of the model, and the cost model of the FADiff paper as printed."""
