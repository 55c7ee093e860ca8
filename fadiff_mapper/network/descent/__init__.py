"""Gradient descent on the relaxed network: tiling factors of all layers and one fusion variable sigma per link."""
