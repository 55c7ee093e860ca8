"""From Accelergy's figures of primitive components to those of the whole input, in the files that Accelergy writes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.energy.accelergy_components import (
    CompoundAction,
    CompoundComponent,
    DescribedHardware,
    PrimitiveComponent,
    instances,
)
from fadiff_mapper.energy.accelergy_request import action_name, asked_name, part_name
from fadiff_mapper.spec.tables import EnergyTable, Tables, component_name

DIGITS = 6
"""Significant digits of the figures that Accelergy writes, unless it is asked for more."""


def assembled(hardware: DescribedHardware, answered: Tables, energies_by: Mapping[str, str],
              areas_by: Mapping[str, str]) -> dict[str, Any]:
    """The sections of Accelergy's files for an input: ERT, ART, their summaries, and the flattened architecture.

    The energy of a compound component's action is the sum over its steps: the energy of the primitive action, times
    its scale, times the components of the range that it names, times the scale of the component. Its area is the sum
    over its parts: area times scale times components (Accelergy's `ERT_generator.py`, `ART_generator.py`).

    Args:
        hardware: The components.
        answered: Accelergy's tables for the request of this hardware, in full precision.
        energies_by: The plug-in that estimated the energies of each component of the request.
        areas_by: The same of areas; empty where Accelergy does not say so, and the summaries are then left out.

    Returns:
        Section -> its content. Accelergy lists primitive components first, and none without actions in an ERT.

    Raises:
        FadiffError: A figure is missing.
    """
    tables = {component_name(table.component): table for table in answered.ert}
    areas = {component_name(name): area for name, area in answered.art.items()}
    ert, art, ert_summary, art_summary = [], [], [], []
    for number, one in enumerate(hardware.primitives):
        asked = asked_name(number)
        rows = [{"name": entry.action, "arguments": entry.arguments, "energy": rounded(entry.energy)}
                for entry in (tables[asked].entries if asked in tables else ())]
        if rows:
            ert.append({"name": one.name, "actions": rows})
            ert_summary.append(_summary(one.name, rows, {one.name: energies_by.get(asked, "")}))
        area = rounded(_figure(areas, asked, one.name))
        art.append({"name": one.name, "area": area})
        art_summary.append({"name": one.name, "area": area, "primitive_estimations": areas_by.get(asked, "")})
    for compound in hardware.compounds:
        rows = [{"name": action.name, "arguments": dict(action.arguments),
                 "energy": rounded(_energy(compound, action, tables))} for action in compound.actions]
        if rows:
            ert.append({"name": compound.name, "actions": rows})
            ert_summary.append(_summary(compound.name, rows, {
                step.name: energies_by.get(part_name(step.part), "")
                for action in compound.actions for step in action.steps}))
        total = 0.0
        for part in compound.parts:
            total += _figure(areas, part_name(part), f"{compound.name}: {part.name}") * part.area_scale \
                * instances(part.name)
        art.append({"name": compound.name, "area": rounded(total)})
        art_summary.append({"name": compound.name, "area": rounded(total), "primitive_estimations": [
            {"name": part.name, "estimator": areas_by.get(part_name(part), "")} for part in compound.parts]})
    version = {"version": answered.version}
    sections = {"ERT": version | {"tables": ert}, "ART": version | {"tables": art},
                "architecture": version | {"local": [_flattened(one) for one in hardware.components]}}
    if areas_by:
        sections |= {"ERT_summary": version | {"table_summary": ert_summary},
                     "ART_summary": version | {"table_summary": art_summary}}
    return sections


def _figure(figures: Mapping[str, float], name: str, whose: str) -> float:
    """One figure of the answer. Raises FadiffError."""
    if name not in figures:
        raise FadiffError(f"no figure of {whose}")
    return figures[name]


def _energy(compound: CompoundComponent, action: CompoundAction, tables: Mapping[str, EnergyTable]) -> float:
    """pJ of one action, summed in Accelergy's order. Raises FadiffError."""
    total = 0.0
    for step in action.steps:
        table = tables.get(part_name(step.part))
        energy = _figure(table.actions if table else {}, action_name(step),
                         f"{compound.name}: {step.name}: {step.action}")
        total += energy * step.energy_scale * instances(step.name) * step.part.energy_scale
    return total


def rounded(value: float) -> float:
    """A figure with the digits that Accelergy writes unless it is asked for more."""
    if value == 0 or not math.isfinite(value):
        return value
    return round(value, DIGITS - math.floor(math.log10(abs(value))) - 1)


def _summary(name: str, rows: list[dict[str, Any]], estimated_by: Mapping[str, str]) -> dict[str, Any]:
    """The entry of a component in the summary of an ERT; `estimated_by` has the plug-in of each of its parts."""
    by_action: dict[str, list[float]] = {}
    for row in rows:
        by_action.setdefault(row["name"], []).append(row["energy"])
    actions: list[dict[str, Any]] = [
        {"name": action, "energy": found[0]} if len(found) == 1 else
        {"name": action, "average_energy": rounded(sum(found) / len(found)), "max_energy": max(found),
         "min_energy": min(found)} for action, found in by_action.items()]
    return {"name": name, "actions": actions, "primitive_estimation(s)": [
        {"name": part, "estimator": estimator} for part, estimator in estimated_by.items()]}


def _flattened(one: PrimitiveComponent | CompoundComponent) -> dict[str, Any]:
    """The entry of a component in the flattened architecture."""
    return {"name": one.name, "class": one.kind, "attributes": dict(one.attributes)}
