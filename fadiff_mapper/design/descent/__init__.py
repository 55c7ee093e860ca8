"""The descent of hardware: its parameters, all tiling factors and all fusion variables in one loop, and what it proposes."""
