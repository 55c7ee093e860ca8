"""The keys of the input as JSON Schema and as a page of the reference, both from the tables that the readers read."""

from __future__ import annotations

import json
from typing import Any

from fadiff_mapper.base.errors import FadiffError, listed, nearest
from fadiff_mapper.base.text_formats import json_text
from fadiff_mapper.design import space
from fadiff_mapper.inference import language_model
from fadiff_mapper.inputs.load import PASSED_ON
from fadiff_mapper.inputs.native.hyphens import REWRITTEN
from fadiff_mapper.inputs.spec import keys
from fadiff_mapper.inputs.yaml.located import REQUIRED, Key, Table
from fadiff_mapper.workload.readers import network_text, problem_folder

TABLES: dict[str, Table] = {
    "architecture": keys.ARCHITECTURE, "node": keys.NODE, "component": keys.COMPONENT,
    "architecture in lists": keys.ARCHITECTURE_LISTS, "v0.4 architecture": keys.V04_ARCHITECTURE,
    "v0.4 node": {**keys.ENTRY, **keys.CONTAINER, **keys.BRANCH}, "spatial": keys.SPATIAL,
    "node constraints": keys.NODE_CONSTRAINTS,
    "attributes": {**keys.ARITHMETIC, **keys.NETWORK, **keys.MEMORY},
    "unit": keys.UNIT, "operation": keys.OPERATION,
    "problem": keys.PROBLEM, "shape": keys.SHAPE, "coefficient": keys.COEFFICIENT, "data space": keys.DATA_SPACE,
    "instance": keys.INSTANCE, "density": keys.DENSITY, "bits": keys.ELEMENT,
    "v0.4 document": keys.V04_DOCUMENT, "globals": keys.GLOBALS, "components": keys.COMPONENTS,
    "map space": keys.MAPSPACE, "constraint section": keys.CONSTRAINT_SECTION, "constraint": keys.CONSTRAINT,
    "directive": {name: key for table in keys.DIRECTIVES.values() for name, key in table.items()},
    "mapper": keys.MAPPER,
    "ERT": keys.ERT, "energies": keys.ENERGIES, "action": keys.ACTION, "ART": keys.ART, "area": keys.AREA,
    "sparse optimizations": keys.SPARSE, "sparse target": keys.SPARSE_TARGET,
    "representation format": keys.REPRESENTATION_FORMAT, "format": keys.FORMAT, "rank": keys.RANK,
    "action optimization": keys.ACTION_OPTIMIZATION, "option": keys.OPTION,
    "compute optimization": keys.COMPUTE_OPTIMIZATION,
    "network": network_text.NETWORK, "network shape": network_text.SHAPE, "network node": network_text.NODE,
    "folded operator": network_text.FOLDED,
    "network of problems": problem_folder.GRAPH, "problem file": problem_folder.LAYER, "edge": problem_folder.EDGE,
    "model": language_model.MODEL,
    "design space": space.DESIGN_SPACE, "parameter": space.PARAMETER,
}
"""All tables by name; keys of one table refer to other tables by these names."""
OPEN = ("attributes", "instance", "model")
"""Tables that accept other keys, too: attributes for Accelergy, dimensions and coefficients of the shape, keys of
transformers."""
UNTYPED = ("v0.4 node", "constraint", "directive", "model")
"""Tables whose required keys depend on a type; only the readers check these, not the schema."""
SECTIONS = {
    "arch": ("architecture", "arch"), "problem": ("problem",), "mapping": ("mapping",), "mapper": ("mapper",),
    "constraints": ("constraints", "architecture_constraints", "arch_constraints", "mapspace_constraints", "mapspace"),
    "sparse": ("sparse_optimizations",), "units": ("units",), "ERT": ("ERT",), "ART": ("ART",),
    "space": ("design_space",)}
"""Kind of a Timeloop file -> sections, of which the file must have at least one."""
OWN_SECTIONS = {"network": ("workload", "network"), "edges": ("network", "network of problems")}
"""Kind of a file with a section of its own -> this section, and the table of its keys."""


def json_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one kind of file, in either dialect, as plain data.

    It states names and types of keys in each mapping. Only the readers check whether the parts fit each other.

    Args:
        kind: "arch", "problem", "mapping", "mapper", "constraints", "sparse", "units", "ERT", "ART", "space",
            "network", "edges" (of a folder of problems) or "model" (a `config.json`).

    Raises:
        FadiffError: There is no such kind.
    """
    kinds = (*SECTIONS, *OWN_SECTIONS, "model")
    if kind not in kinds:
        raise FadiffError(f'found "{kind}"{nearest(kind, kinds)}; accepted: {listed(kinds)}')

    def ref(name: str) -> dict[str, Any]:
        return {"$ref": f"#/$defs/{name}"}

    constraint_list = {"type": "array", "items": ref("constraint")}
    constraints = {"anyOf": [constraint_list, _object("constraint section", keys.CONSTRAINT_SECTION) | {
        "patternProperties": {"^constraints_": constraint_list, "ignore": {}}}]}
    section: dict[str, dict[str, Any]] = {
        "arch": {"anyOf": [ref(name) for name in ("architecture", "architecture in lists", "v0.4 architecture")]},
        "mapping": {"type": "array", "items": ref("directive")}, "constraints": constraints,
        "units": {"type": "array", "items": ref("unit")}, "sparse": ref("sparse optimizations"),
        "space": {"allOf": [ref("design space"), {
            "properties": {"parameters": {"additionalProperties": ref("parameter")}}}]}}
    definitions = {"$defs": {name: _object(name, table) for name, table in TABLES.items()}}
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    if kind == "model":
        return dialect | ref("model") | definitions
    head = dialect | {"type": "object", "additionalProperties": False}
    if kind in OWN_SECTIONS:
        name, table = OWN_SECTIONS[kind]
        return head | {"properties": {name: ref(table)}, "required": [name]} | definitions
    properties = {name: _or_null(section.get(what, ref(what))) for what, names in SECTIONS.items() for name in names}
    return head | {
        "properties": properties | {name: {} for name in PASSED_ON} | {"globals": _or_null(ref("globals"))},
        "patternProperties": {"ignore|components": {}, "constraints": _or_null(constraints),
                              "mapping$": _or_null(section["mapping"])},
        "anyOf": [{"required": [name]} for name in SECTIONS[kind]]} | definitions


def schema_file(kind: str) -> dict[str, str]:
    """Name and text of the schema that lies beside a file of one kind."""
    return {f"{kind}.schema.json": json_text(json_schema(kind)) + "\n"}


def schema_line(kind: str, folder: str = "") -> str:
    """The comment by which yaml-language-server finds the schema in a folder, by default the folder of the file."""
    return f"# yaml-language-server: $schema={folder}{kind}.schema.json\n"


def _object(name: str, table: Table) -> dict[str, Any]:
    """The schema of a mapping; in v0.4, keys with "ignore" in their name are the user's own."""
    required = [] if name in UNTYPED else [
        {"anyOf": [{"required": [spelling]} for spelling in _spellings(key)]}
        for key in table.values() if key.default is REQUIRED]
    found = {"type": "object", "patternProperties": {"ignore": {}}, "additionalProperties": name in OPEN,
             "properties": {spelling: _or_null(key.kind.schema) for key in table.values()
                            for spelling in _spellings(key)}} | ({"allOf": required} if required else {})
    number = {"density": keys.SHARE, "bits": keys.BITS}.get(name)
    return {"anyOf": [number.schema, found]} if number else found


def _spellings(key: Key) -> list[str]:
    """All spellings of a key, with the old hyphenated ones that Timeloop rewrites."""
    return [*key.spellings, *(name.replace("_", "-") for name in key.spellings if name in REWRITTEN)]


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]} if schema else {}


def reference() -> str:
    """All keys as a page of Markdown, a table for each kind of mapping."""
    lines = [
        "# Keys of the input", "",
        "Every key that is read, in both dialects; a null counts as absent. Numbers may be text such as `1e-9`,",
        "in v0.4 also expressions. `python docs/make_keys.py` writes this page from the tables that the readers read.",
        "`output/schema.py:json_schema` gives the JSON Schema of a file."]
    others = {"attributes": "Others are kept for Accelergy.", "instance": "Dimensions and coefficients have theirs.",
              "model": "Others are accepted where they bear on no cost."}
    for name, table in TABLES.items():
        lines += ["", f"## {name}", "", *([others[name], ""] if name in others else []),
                  "| key | accepts | default | meaning |", "|---|---|---|---|"]
        for key in table.values():
            default = key.default if isinstance(key.default, str) else json.dumps(key.default, default=str)
            shown = ("none: it must be there" if key.default is REQUIRED else
                     "" if key.default in (None, "") else f"`{default}`")
            spellings = ", ".join(f"`{spelling}`" for spelling in key.spellings)
            lines.append(f"| {spellings} | {key.kind.words} | {shown} | {key.meaning} |")
    return "\n".join(lines) + "\n"
