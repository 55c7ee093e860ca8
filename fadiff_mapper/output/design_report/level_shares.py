"""Energy and cycles of the best design's networks by level of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fadiff_mapper.output.network_report.draw_layers import component_kind
from fadiff_mapper.output.network_report.drawing import Drawing, Label, Rect, Shape, fitting, upright_line
from fadiff_mapper.output.network_report.layer_views import component_names, layer_views
from fadiff_mapper.output.network_report.rounded_units import COUNT, ENERGY, DisplayUnit, unit_for

if TYPE_CHECKING:
    from fadiff_mapper.network.result import NetworkResult

WIDTH, NAMES, GAP, VALUE, HEAD, ROW, BAR = 1080.0, 176.0, 40.0, 110.0, 26.0, 22.0, 12.0
"""Pixels: of the drawing, names, between panels, of the number behind a bar, of the heading, of a row, of a bar."""


@dataclass(frozen=True)
class LevelShare:
    """One component of the machine over a whole run of all networks.

    Attributes:
        name: The level, the arithmetic, or the wires.
        css_class: Its colour.
        energy_pj: Energy in pJ as planned.
        cycles: Cycles that it is busy, layer by layer, every layer by itself; None for wires.
    """

    name: str
    css_class: str
    energy_pj: float
    cycles: float | None


def level_shares(networks: Sequence[tuple[float, NetworkResult]]) -> tuple[LevelShare, ...]:
    """The shares of every component, the outermost level first.

    Args:
        networks: How often each network runs, and its mappings; all on one machine.
    """
    names = tuple(dict.fromkeys(name for _, network in networks for name in component_names(
        network, layer_views(network))))
    outermost = networks[0][1].hardware.arch.levels[-1].name
    energies, cycles = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for weight, network in networks:
        for view in layer_views(network):
            for name, energy in view.planned.components.items():
                energies[name] = energies.get(name, 0.0) + weight * energy
        for outcome in network.layers:
            busy = {level["name"]: level["cycles"] for level in outcome.stats.levels}
            busy[outcome.stats.arithmetic["name"]] = outcome.stats.arithmetic["cycles"]
            for name in names:
                cycles[name] += weight * outcome.count * busy.get(name, 0.0)
    built = {level.name for level in networks[0][1].hardware.arch.levels}
    built.add(networks[0][1].hardware.arch.arithmetic.name)
    return tuple(LevelShare(name, component_kind(names, outermost, name), energies[name],
                            cycles[name] if name in built else None) for name in reversed(names))


def draw_levels(shares: Sequence[LevelShare]) -> Drawing:
    """Two panels of bars, energy and busy cycles, with a row per component."""
    width = (WIDTH - NAMES - GAP) / 2
    energy = unit_for((share.energy_pj for share in shares), ENERGY)
    cycles = unit_for((share.cycles or 0.0 for share in shares), COUNT, "cycles")
    shapes: list[Shape] = [Label(NAMES - 10, HEAD + row * ROW + 14, fitting(share.name, NAMES - 14), "", "end")
                           for row, share in enumerate(shares)]
    shapes += _bars(f"energy ({energy.name})", shares, [share.energy_pj for share in shares], energy, NAMES, width)
    shapes += _bars("busy cycles, layers by themselves", shares, [share.cycles or 0.0 for share in shares], cycles,
                    NAMES + width + GAP, width)
    return Drawing(WIDTH, HEAD + len(shares) * ROW + 6, "energy and busy cycles by level", tuple(shapes))


def _bars(title: str, shares: Sequence[LevelShare], values: Sequence[float], unit: DisplayUnit, left: float,
          width: float) -> Iterator[Shape]:
    """One panel; its longest bar leaves room for its number."""
    scale = (width - VALUE) / (max(values) or 1.0)
    yield Label(left, 14, title, "head")
    yield upright_line(left, HEAD - 4, HEAD + len(shares) * ROW, "rule")
    for row, (share, value) in enumerate(zip(shares, values, strict=True)):
        top = HEAD + row * ROW
        if value > 0:
            yield Rect(left, top + (ROW - BAR) / 2, value * scale, BAR, share.css_class,
                       f"{share.name}: {unit.written(value)}")
        yield Label(left + value * scale + 6, top + 15, unit.written(value), "value")
