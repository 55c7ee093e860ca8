"""The descent of hardware together with tiling factors and fusion variables, and the designs that it proposes."""
