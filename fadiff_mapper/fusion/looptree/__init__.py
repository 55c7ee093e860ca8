"""LoopTree's model of fused layers: its inputs (`v4fused`) and its counts.

In the order of use: `read_input` (text to values, with `affine` for isl expressions), `chain` (layers and the mapping
tree), `tiling` (operations of every layer per step), `occupancy` (words held and moved at one storage node), `traffic`
(accesses of every level), `evaluate_fused` (all results). `boxes` encodes rows of whole numbers as single numbers.
Semantics follow LoopTree, the fused-layer model of pytimeloop; the tests compare its recorded results number by number.
"""
