"""A map space without any mapping is found before it is searched, whatever makes it empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from fadiff_mapper import FadiffError, load, map_layer
from fadiff_mapper.search.mapping_task import mapping_task

DESIGN = """\
architecture:
  version: 0.4
  nodes:
  - !Component {name: DRAM, class: DRAM, attributes: {width: 64, datawidth: 8}}
  - !Component {name: Buffer, class: SRAM, attributes: {depth: 4096, width: 64, datawidth: 8}}
  - !Container {name: Lanes, spatial: {meshX: %d}, constraints: {spatial: {factors: [M=8]}}}
  - !Component {name: MACC, class: intmac, attributes: {width: 8, datawidth: 8}}
problem:
  version: 0.4
  shape:
    name: product
    dimensions: [M, K]
    data_spaces:
    - {name: A, projection: [[[M]], [[K]]]}
    - {name: Z, projection: [[[M]]], read_write: true}
  instance: {M: 16, K: 4}
"""


@pytest.mark.parametrize(("lanes", "impossible"), [(8, ()), (4, ("M",))])
def test_a_fixed_factor_above_its_fanout_leaves_nothing_to_search(lanes: int, impossible: tuple[str, ...],
                                                                  tmp_path: Path) -> None:
    file = tmp_path / "design.yaml"
    file.write_text(DESIGN % lanes, encoding="utf-8")
    spec = load(file)
    assert mapping_task(spec).impossible == impossible
    if impossible:
        with pytest.raises(FadiffError, match=r"no mapping can meet the constraints: spatial M=8 at .*design.yaml:.*\) "
                                              r"does not fit on the fan-out of 4 x 1"):
            map_layer(spec)
    else:
        assert map_layer(spec).mapping
