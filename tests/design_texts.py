"""A small space of designs and a network of two small layers, as texts."""

from __future__ import annotations

SPACE = """
architecture:
  version: 0.4
  nodes:
  - !Container {name: System, attributes: {technology: "45nm", global_cycle_seconds: 1.0e-9}}
  - !Component {name: DRAM, class: DRAM, attributes: {type: "LPDDR4", width: 64, datawidth: 8, shared_bandwidth: 8}}
  - !Component {name: Buffer, class: SRAM, attributes: {depth: 1024, width: 64, datawidth: 8, shared_bandwidth: 8}}
  - !Container {name: Columns, spatial: {meshX: 4}}
  - !Container {name: Rows, spatial: {meshY: 4}}
  - !Component {name: Register, class: regfile, attributes: {depth: 4, width: 8, datawidth: 8}}
  - !Component {name: MAC, class: intmac, attributes: {width: 8, datawidth: 8}}
design_space:
  version: 0.1
  parameters:
    columns: {path: Columns.spatial.meshX, powers_of_two: [4, 16]}
    rows: {path: Rows.spatial.meshY, values: [4, 8, 16]}
    depth: {path: Buffer.attributes.depth, range: [256, 768], step: 256}
  ties: {Buffer.attributes.shared_bandwidth: 2 * columns}
  limits: {area_mm2: 3.0}
"""

PAIR = """
workload:
  version: 1
  name: pair
  inputs: {input: [1, 4, 10, 10]}
  shapes:
  - {id: conv, op: conv, dims: {N: 1, M: 8, C: 4, P: 8, Q: 8, R: 3, S: 3}, stride: [1, 1]}
  - {id: point, op: conv, dims: {N: 1, M: 8, C: 8, P: 8, Q: 8, R: 1, S: 1}, stride: [1, 1]}
  graph:
  - {name: conv1, shape: conv, from: [input]}
  - {name: pw1, shape: point, from: [conv1]}
"""
