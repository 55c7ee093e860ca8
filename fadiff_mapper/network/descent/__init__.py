"""Gradient descent on the relaxed network: tiling factors of all layers and sigma of every link."""
