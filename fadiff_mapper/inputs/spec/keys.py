"""Every key of Timeloop's input, once: spellings, accepted values, default and meaning.

The readers, their messages, the JSON Schema and the reference page (`output/schema.py`) are made from these tables.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from fadiff_mapper.inputs.spec.arch import OPERATIONS
from fadiff_mapper.inputs.spec.sparse_optimizations import BANDED, FIXED, FORMATS, HYPERGEOMETRIC
from fadiff_mapper.inputs.spec.spec import METRICS
from fadiff_mapper.inputs.yaml import located
from fadiff_mapper.inputs.yaml.located import REQUIRED, Key, Kind
from fadiff_mapper.inputs.yaml.place import Leniency, Oddity, Where

V04 = "0.4"  # version of the v0.4 dialect, which its sections may state
MOST_BITS = 256  # bits of an element; published number formats have 64 at most
OTHER_BASES = re.compile(r"\+?0(?:[xX](?P<hexadecimal>[0-9a-fA-F]+)|(?P<octal>[0-7]+))")
"""Whole numbers that are not decimal, as C writes them."""


def kind(check: located.Check[Any], words: str, **schema: Any) -> Kind:
    """The values that a check accepts, in strict and in lenient readings alike."""
    return Kind(lambda value, where, _: check(value, where), words, schema)


def whole_number(value: Any, where: Where, minimum: int, leniency: Leniency) -> int:
    """A whole number as Timeloop reads it: 0x10 is hexadecimal, 010 is octal; `leniency` decides about 16.0."""
    other = OTHER_BASES.fullmatch(value) if isinstance(value, str) else None
    if other:
        value = int(other["hexadecimal"], 16) if other["hexadecimal"] else int(other["octal"], 8)
    found = located.integer(value, where, minimum)
    if isinstance(value, float) or (isinstance(value, str) and not value.lstrip("+").rstrip().isdigit()):
        leniency.meet([Oddity(where, where.path, f"timeloop-model refuses {value} as a whole number", str(found),
                              f"it is {found}")])
    return found


def whole(minimum: int) -> Kind:
    """Whole numbers, for `timeloop-model`: see `whole_number`."""
    return Kind(lambda value, where, leniency: whole_number(value, where, minimum, leniency),
                f"whole number >= {minimum}", {"type": ["number", "string"], "minimum": minimum})


def real(minimum: float | None = None, above: float | None = None) -> Kind:
    """Finite numbers, also as text such as "1e-9"."""
    least = {"minimum": minimum} if minimum is not None else {"exclusiveMinimum": above} if above is not None else {}
    sign = f" >= {minimum:g}" if minimum is not None else f" > {above:g}" if above is not None else ""
    return kind(partial(located.number, minimum=minimum, above=above), f"number{sign}", type=["number", "string"],
                **least)


def one(*accepted: str) -> Kind:
    """One of these words."""
    return kind(located.one_of(*accepted), ", ".join(f"`{word}`" for word in accepted), enum=list(accepted))


def table_of(name: str) -> Kind:
    """A mapping with the keys of the table of this name in `output/schema.py:TABLES`."""
    anchor = "#" + name.lower().replace(" ", "-").replace(".", "")
    return kind(located.mapping, f"[{name}]({anchor})", **{"$ref": f"#/$defs/{name}"})


def tables_of(name: str) -> Kind:
    """A list of mappings with the keys of the table of this name."""
    row = table_of(name)
    return kind(located.sequence, f"list of {row.words}", type="array", items=row.schema)


ANY = kind(located.anything, "anything")
TEXT = kind(located.text, "text", type=["string", "number"])
NATURAL = kind(located.natural, "whole number >= 0", type=["number", "string"], minimum=0)
POSITIVE = kind(located.positive, "whole number >= 1", type=["number", "string"], minimum=1)
TRUTH = kind(located.boolean, "true or false", type=["boolean", "string"])
MAP = kind(located.mapping, "mapping", type="object")
LIST = kind(located.sequence, "list", type="array")
# Their text is read with the dimensions and data spaces of the problem, see `native/mapping.py`.
FACTORS = kind(located.anything, "factors, such as `C=2 M=3`", type=["string", "array"])
ORDER = kind(located.anything, "order of dimensions, innermost first", type=["string", "array"])
SPACES = kind(located.sequence, "list of data spaces", type="array", items={"type": ["string", "number"]})
NAMES = kind(located.each(located.text), "list of names", type="array", items={"type": ["string", "number"]})
DIMENSIONS = kind(located.sequence, "list of dimensions, or list of such lists", type="array")


def _word_bits(value: Any, where: Where, leniency: Leniency) -> int:
    """Bits of a word; a mapping with one width per data space is refused with a message that says why."""
    if isinstance(value, dict):
        raise where.error("found a mapping: Timeloop gives all data spaces of a level the same word width",
                          "a whole number >= 1; a level of its own for a data space of another width")
    return whole_number(value, where, 1, leniency)


def _bandwidth(value: Any, where: Where) -> float | None:
    """Words per cycle; an infinite bandwidth is read as None, unlimited."""
    if isinstance(value, str | float) and str(value).lower() in ("inf", ".inf", "+.inf"):
        return None
    return located.number(value, where, above=0)


def _share(value: Any, where: Where) -> float:
    share = float(located.number(value, where, 0))
    if share > 1:
        raise where.error(f"found a density of {share:g}", "a number from 0 to 1")
    return share


def _bits(value: Any, where: Where) -> int:
    bits = located.number(value, where)
    if bits not in range(1, MOST_BITS + 1):
        raise where.error(f"found {bits:g}", f"a whole number from 1 to {MOST_BITS}")
    return int(bits)


def _ratio(value: Any, where: Where, leniency: Leniency) -> float:
    """A factor on bandwidth demand. Timeloop reads text that is no number, such as "1 / X", as 0."""
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        if isinstance(value, str):
            leniency.meet([Oddity(where, f"bandwidth scale {value}", f'found the text "{value}"', "a number >= 0",
                                  "Timeloop reads 0")])
            return 0.0
    return located.number(value, where, 0)


def v04_version(value: Any, where: Where) -> str:
    """Checks for the only version of the v0.4 dialect, which may be a number."""
    if str(value) != V04:
        raise where.error(f"found version {value}", V04)
    return V04


def _metrics(value: Any, where: Where) -> tuple[str, ...]:
    """One metric, or a list of some."""
    if isinstance(value, str):
        return (located.known(value, where, METRICS),)
    return tuple(located.known(str(entry), place, METRICS) for entry, place in located.sequence(value, where).placed())


WORD_BITS = Kind(_word_bits, "whole number >= 1", {"type": ["number", "string"], "minimum": 1})
BANDWIDTH = kind(_bandwidth, "number > 0, or inf", type=["number", "string"], exclusiveMinimum=0)
SHARE = kind(_share, "number from 0 to 1", type=["number", "string"], minimum=0, maximum=1)
BITS = kind(_bits, f"whole number from 1 to {MOST_BITS}", type=["number", "string"], minimum=1, maximum=MOST_BITS)
RATIO = Kind(_ratio, "number >= 0", {"type": ["number", "string"], "minimum": 0})


def table(*keys: tuple[str, Kind, Any, str]) -> dict[str, Key]:
    """The keys of one mapping, each with its spellings, kind, default and meaning."""
    return {spellings.split()[0]: Key(tuple(spellings.split()), kind, default, meaning)
            for spellings, kind, default, meaning in keys}


_VERSION = ("version", ANY, None, "version of the format")
_V04_VERSION = ("version", kind(v04_version, f"`{V04}`", enum=[V04, float(V04)]), None, "version of the dialect")
_NAME = ("name", TEXT, REQUIRED, "its name")
ARCHITECTURE = table(
    _VERSION,
    ("constraints", ANY, None, "native: constraints on the map space"),
    ("name", ANY, None, "not read"),
    ("attributes", ANY, None, "native: attributes of all components, for the energy tables"),
    ("local", ANY, None, "not read"),
    ("subtree", tables_of("node"), REQUIRED, "native: the one node of the tree"))
NODE = table(
    ("name", TEXT, "", "its name, with a range such as `PE[0..15]` for several instances"),
    ("attributes", MAP, None, "attributes of all components in it, for the energy tables"),
    ("local", tables_of("component"), None, "its components, from the outside in"),
    ("subtree", tables_of("node"), None, "the one node inside it"))
ARCHITECTURE_LISTS = table(
    _VERSION,
    ("constraints", ANY, None, "constraints on the map space"),
    ("arithmetic", table_of("attributes"), REQUIRED, "name and attributes of the multiply-accumulate units"),
    ("storage", tables_of("attributes"), REQUIRED, "names and attributes of the memories, from the inside out"))
COMPONENT = table(
    ("name", TEXT, REQUIRED, "its name, with a range such as `PE[0..15]` for several instances"),
    ("class", TEXT, REQUIRED, "contains DRAM, SRAM, regfile, smartbuffer or storage; mac or compute; or a network"),
    ("attributes", table_of("attributes"), None, "its attributes"),
    *((key, ANY, None, "for Accelergy") for key in (
        "subclass", "component_class", "required_actions", "actions", "enabled", "area_scale", "energy_scale",
        "area_share", "energy_share", "action_latency_cycles")),
    ("constraints", ANY, None, "not read"), ("spatial", ANY, None, "not read"),
    ("sparse_optimizations", ANY, None, "a section of its own"))
WIRES = table(
    ("network_fill_latency", whole(0), 0, "cycles before the first word arrives"),
    ("network_drain_latency", whole(0), 0, "cycles after the last word has left"),
    ("network_word_bits", whole(1), None, "bits of a word on the wires; by default as in the level"),
    ("energy_per_hop", real(), None, "pJ of a word and hop; by default from length and energy of the wires"),
    ("wire_energy", real(), 0.0, "pJ of a bit and mm"),
    ("tile_width", real(), None, "um of a hop; by default from the area of the parts inside"),
    ("router_energy", real(), 0.0, "pJ of a router and word"),
    ("energy-per-ingress", real(), 0.0, "pJ of a word that enters"))
LEVEL = table(
    ("instances", whole(1), None, "instances on the whole chip; by default from the ranges of names"),
    ("meshX", whole(1), None, "instances along X; by default all instances over meshY"),
    ("meshY", whole(1), None, "instances along Y; by default all instances over meshX"),
    ("word_bits word_width datawidth", WORD_BITS, 16, "bits of a word"),
    ("block_size n_words", whole(1), None, "words of an access; by default from the width, else 1"),
    ("cluster_size", whole(1), None, "instances that share one memory; by default from the width, else 1"),
    ("width memory_width data_storage_width", whole(1), None, "bits of an access of a cluster"),
    ("entries", whole(0), None, "capacity in words"),
    ("depth", whole(0), None, "capacity in accesses"),
    ("memory_depth", whole(0), None, "as depth"),
    ("data_storage_depth", whole(0), None, "as depth"),
    ("sizeKB", whole(0), None, "capacity in KiB"),
    ("multiple_buffering", real(above=0), 1.0, "copies of a tile that must fit"),
    ("min_utilization", real(0), 0.0, "least share of the capacity that a mapping fills"),
    ("bandwidth", BANDWIDTH, None, "words per cycle, half of them read and half written"),
    ("read_bandwidth", BANDWIDTH, None, "words read per cycle; unlimited"),
    ("write_bandwidth", BANDWIDTH, None, "words written per cycle; unlimited"),
    ("shared_bandwidth", BANDWIDTH, None, "words read and written per cycle; unlimited"),
    ("per_dataspace_bandwidth_consumption_scale", MAP, None, "factor on the bandwidth demand of a data space"),
    ("vector_access_energy", real(0), None, "pJ of every access, in place of the ERT"),
    ("addr_gen_energy", real(), 0.0, "pJ of an address"),
    *((key, values.kind, values.default, values.meaning) for key, values in WIRES.items()),
    *((f"network_{key}", TEXT, None, f"name of the network {which}") for key, which in (
        ("read", "that carries words inwards"), ("fill", "that brings words from further out"),
        ("update", "that brings results from further in"), ("drain", "that carries results outwards"),
        ("operand", "that brings operands to the arithmetic"), ("result", "that takes results from it"))),
    ("reduction_supported", TRUTH, None, "whether the level adds partial sums; by default true, but not at a DRAM"),
    ("network_type", TEXT, "1:1", "`1:1` or `1:N`"),
    ("technology", ANY, None, "technology, for the energy tables; in the list format, `DRAM` makes the level a DRAM"),
    ("allow_overbooking", TRUTH, False, "false"))
"""Attributes of a component that change a result. Others go to Accelergy and are kept as they are."""
MEMORY = LEVEL | table(
    ("num_ports", ANY, 2, "1 or 2; no effect here"), ("n_ports", ANY, 2, "as num_ports"),
    ("power_gated_at", TEXT, None, "level whose instances are gated together"),
    ("decompression_supported", TRUTH, False, "whether compressed data from further out can be stored plainly"),
    ("compression_supported", TRUTH, False, "whether plain data can be sent outwards compressed"),
    ("tile_partition_supported", TRUTH, False, "false"),
    ("metadata_block_size", whole(1), 1, "units of metadata of an access"),
    ("metadata_datawidth metadata_word_bits", whole(0), 0, "bits of a unit of metadata"),
    ("metadata_storage_width metadata_width", whole(0), 0, "bits of an access of the memory for metadata"),
    ("metadata_storage_depth metadata_depth", whole(0), 0, "capacity of the memory for metadata in accesses"),
    ("has_power_gating", ANY, False, "v0.4: whether a unit of power gating begins at the next level inwards"),
    ("cluster_area", real(), 0.0, "um^2 of a cluster where no ART gives any"))
ARITHMETIC = LEVEL | table(
    ("word_bits datawidth", WORD_BITS, 16, "bits of an operand"),
    ("energy", whole(0), None, "pJ per operation where no ERT gives one"),
    ("area", real(), 0.0, "um^2 where no ART gives any"))
NETWORK = LEVEL | table(
    ("word_bits word_width datawidth", whole(1), 16, "bits of a word"),
    ("fill_latency", real(0), 0, "cycles before the first word arrives, and after the last"),
    ("adder_energy", real(), 0.0, "pJ of an addition in a reduction tree"),
    ("action_name", TEXT, None, "action of a multicast in the ERT"),
    ("multicast_factor_argument", TEXT, "none", "argument of that action that holds the number of receivers"),
    ("per_datatype_ERT", TRUTH, None, "whether each data space has an action of its own"))
UNIT = table(
    _NAME,
    ("level", TEXT, REQUIRED, "the memory from which it takes its operands"),
    ("instances", whole(1), 1, "units on the whole chip"),
    ("lanes", whole(1), 1, "operations that an instance begins in a cycle"),
    ("operations", kind(located.mapping, "[operation](#operation), cycles or nothing, by name", type="object"),
     REQUIRED, f"its operations: {', '.join(OPERATIONS)}"),
    ("skips_masked", TRUTH, False, "whether fused attention leaves out blocks of scores that a causal mask hides"))
OPERATION = table(
    ("cycles", real(above=0), None, "cycles on a lane; by default the sum over its operations, else 1"),
    ("energy", real(0), None, "pJ where no ERT gives one; by default the sum over its operations, else bundled"),
    *((name, real(0), None, "number of these operations that the operation consists of") for name in OPERATIONS))
PROBLEM = table(
    _VERSION,
    ("name", TEXT, None, "not read"),
    ("shape", kind(located.anything, "[shape](#shape), or `cnn_layer` or `gemm_ABZ`", anyOf=[
        {"type": "string"}, {"$ref": "#/$defs/shape"}, {"type": "object", "required": ["shape"], "properties": {
            "shape": {"$ref": "#/$defs/shape"}}, "additionalProperties": False}]), "cnn_layer",
     "dimensions and tensors"),
    ("instance", table_of("instance"), REQUIRED, "bounds of the dimensions, and coefficients"))
SHAPE = table(
    ("flatten", ANY, None, "not modelled"), ("flattened_dimensions", ANY, None, "not modelled"),
    _VERSION,
    ("name", TEXT, "", "its name"),
    ("dimensions", LIST, REQUIRED, "names of the dimensions, of one letter"),
    ("coefficients", tables_of("coefficient"), None, "names of strides and dilations"),
    ("data_spaces", tables_of("data space"), REQUIRED, "the tensors, one of them read-write"))
COEFFICIENT = table(_NAME, ("default", whole(0), 1, "its value where the instance gives none"))
DATA_SPACE = table(
    _NAME,
    ("projection", LIST, REQUIRED, "ranks, each a sum of `[dimension]` or `[dimension, coefficient]`"),
    ("read_write", TRUTH, False, "whether it is the output"),
    ("ranks", ANY, None, "names of the ranks; not read"))
INSTANCE = table(
    ("commonDensity", kind(located.anything, "[density](#density)", **{"$ref": "#/$defs/density"}), None,
     "density of every data space"),
    ("densities", MAP, None, "[density](#density) by data space"),
    ("bits", MAP, None, "[bits](#bits) of an element by data space; a word of each level where none are given"))
ELEMENT = table(
    ("bits", BITS, REQUIRED, "bits of an element"),
    ("scale", BITS, 0, "bits of the scale factor that a block of elements shares"),
    ("per", POSITIVE, 1, "elements of such a block"),
    ("partial", BITS, None, "of the output: bits of a partial sum; by default a word of the level, or `bits` if more"))
DENSITY = table(
    ("distribution", TEXT, REQUIRED, "`fixed`, `fixed_structured`, `hypergeometric`, `banded` or `diagonal`"),
    ("density", SHARE, None, "share of nonzeros; not of a banded tensor"),
    ("band_width", NATURAL, 0, "diagonals with nonzeros on either side of the main one"),
    ("workload_tensor_size", ANY, None, "not read: the size of the tensor counts"))
DISTRIBUTIONS = {"fixed": FIXED, "fixed_structured": FIXED, "hypergeometric": HYPERGEOMETRIC, "banded": BANDED,
                 "diagonal": BANDED}
"""Timeloop's names of the distributions."""
_FACTORS = ("factors", FACTORS, None, "factors of the loops")
_PERMUTATION = ("permutation", ORDER, None, "order of the loops")
_NO_LINK = ("no_link_transfer", SPACES, None, "data spaces that receivers do not hand on to each other")
_RMW = ("rmw_first_update", SPACES, None, "outputs that are read back for their first update too")
_NO_COALESCE = ("no_coalesce", SPACES, None, "data spaces that pass through word by word")
_KEEP = ("keep", SPACES, None, "data spaces that the level stores")
_BYPASS = ("bypass", SPACES, None, "data spaces that it does not store")
_TARGET = ("target name", TEXT, REQUIRED, "the level")
MAPPING_TYPES = ("temporal", "spatial", "datatype", "bypass")  # of directives; the last two mean data spaces
OF_CONSTRAINTS = ("dataspace", "bypassing")  # mean data spaces in constraints; refused by timeloop-model in a mapping
_DIRECTIVE = (
    _TARGET, ("type", one(*MAPPING_TYPES, *OF_CONSTRAINTS, "skew"), REQUIRED, "loops or data spaces"),
    ("no_multicast_no_reduction", ANY, None, "refused: a mapping has no_reuse"))
DIRECTIVES = {
    "temporal": table(*_DIRECTIVE, _FACTORS, _PERMUTATION,
                       ("no_reuse no_temporal_reuse", SPACES, None, "data spaces that are sent anew each time"), _RMW),
    "spatial": table(*_DIRECTIVE, _FACTORS, _PERMUTATION,
                      ("split", whole(0), None, "leading entries of the permutation that lie on X; by default all"),
                      ("no_reuse", SPACES, None, "data spaces that are sent to each receiver separately"), _NO_LINK),
    "datatype": table(*_DIRECTIVE, _NO_COALESCE, _KEEP, _BYPASS),
}
"""The keys of a mapping's directives by type; types other than "temporal" and "spatial" have those of "datatype"."""
CONSTRAINT_TYPES = {
    "temporal": "temporal", "spatial": "spatial",
    "datatype": "dataspace", "bypass": "dataspace", "bypassing": "dataspace", "dataspace": "dataspace",
    "utilization": "parallelism", "parallelism": "parallelism",
    "max_overbooked_proportion": "overbooking",
}
"""Every spelling of a native constraint's type -> the kind of its constraint."""
CONSTRAINT = table(
    _TARGET, ("type", one(*CONSTRAINT_TYPES), REQUIRED, "loops or data spaces"),
    ("attributes", table_of("constraint"), None, "native: some of the keys may lie in here"),
    ("constraints", tables_of("constraint"), None, "native: several constraints of one target"),
    _FACTORS,
    ("default_max_factor", POSITIVE, None, "largest factor of every dimension without a limit of its own"),
    ("default_min_factor", POSITIVE, None, "least factor of every dimension without a limit of its own"),
    _PERMUTATION,
    ("split", NATURAL, None, "leading entries of the permutation that lie on X; by default open"),
    ("no_reuse", SPACES, None, "data spaces that are sent anew each time, or to each receiver separately"),
    ("no_multicast_no_reduction", SPACES, None, "native: as no_reuse, of spatial loops"), _NO_LINK,
    ("no_temporal_reuse", SPACES, None, "native: as no_reuse, of temporal loops"), _RMW,
    ("remainders", NATURAL, 1, "1: factors are whole"), _KEEP, _BYPASS, _NO_COALESCE,
    ("min", real(0), REQUIRED, "least share of the arithmetic units in use"),
    ("proportion", real(0), 0, "0: nothing is overbooked"),
    ("factors_only", FACTORS, None, "v0.4: factors; all others are 1"),
    ("no_iteration_over_dataspaces", SPACES, None, "v0.4: factors of their dimensions are 1"),
    ("must_iterate_over_dataspaces", SPACES, None, "v0.4: factors of all other dimensions are 1"),
    ("maximize_dims_capacity", POSITIVE, None, "v0.4: largest product of maximize_dims; by default the fan-out"),
    ("maximize_dims", DIMENSIONS, None, "v0.4: dimensions whose factors are as large as possible"),
    ("keep_only", SPACES, None, "v0.4: the level stores only these"),
    ("bypass_only", SPACES, None, "v0.4: the level stores all others"))
"""The keys of all constraints, of both dialects."""


def picked(names: str) -> dict[str, Key]:
    """Some keys of constraints."""
    return {name: CONSTRAINT[name] for name in names.split()}


_TEMPLATE = ("template", one("uber", "ruby"), "uber", "the kind of map space; ruby is refused")
CONSTRAINT_SECTION = table(
    ("version", TEXT, None, "version of the format"), _TEMPLATE,
    ("targets", tables_of("constraint"), None, "native: the constraints"),
    ("constraints", kind(located.anything, "list of [constraint](#constraint), or `NAME`", anyOf=[
        {"type": "array", "items": {"$ref": "#/$defs/constraint"}}, {"type": "string"}]), None,
     "native: as targets; or NAME, where the constraints are under `constraints_NAME`"))
"""The keys of a section of constraints, which may also be their list."""
_LIMITS = picked("factors default_max_factor default_min_factor permutation")
NATIVE_CONSTRAINTS = {
    "temporal": (_LIMITS, picked("no_reuse no_temporal_reuse rmw_first_update remainders")),
    "spatial": (_LIMITS, picked("split no_reuse no_multicast_no_reduction no_link_transfer remainders")),
    "dataspace": (picked("keep bypass"), picked("no_coalesce")),
    "parallelism": (picked("min"), {}),
    "overbooking": ({}, picked("proportion")),
}
"""Kind of a native constraint -> its keys that may lie in `attributes`, and those that may not."""
_V04_LOOPS = picked("factors permutation default_max_factor default_min_factor") | table(
    ("remainders", POSITIVE, None, "1: factors are whole")) | picked(
    "no_reuse factors_only no_iteration_over_dataspaces must_iterate_over_dataspaces maximize_dims_capacity "
    "maximize_dims")
V04_CONSTRAINTS = {
    "spatial": _V04_LOOPS | picked("no_link_transfer split"),
    "temporal": _V04_LOOPS | picked("rmw_first_update"),
    "dataspace": picked("keep bypass no_coalesce keep_only bypass_only"),
    "utilization": picked("min") | {"min": Key(("min",), real(0), None, CONSTRAINT["min"].meaning)},
}
"""Keys of a v0.4 constraint by its type."""
V04_TARGET = table(
    ("target", TEXT, REQUIRED, "the node"),
    ("type", one(*V04_CONSTRAINTS, "max_overbooked_proportion"), REQUIRED, "loops or data spaces"))
"""The keys by which an entry of a v0.4 list of constraints, or of a mapping, names its node and its type."""
V04_TARGETS = table(_V04_VERSION, ("targets", tables_of("constraint"), None, "the constraints"))
MAPSPACE = table(_V04_VERSION, _TEMPLATE)
IDLE_OPTIONS = {
    "search_size": "Timeloop counts mappings here; the search ends when it has converged",
    "algorithm": "layers are searched by simulated annealing",
    "timeout": "Timeloop counts rejected mappings in a row here; use --time-limit for seconds",
    "victory_condition": "Timeloop counts mappings without improvement here; the search ends when it has converged",
    "sync_interval": "the search has no threads to synchronise",
    "log_interval": "progress is shown on the terminal",
    **dict.fromkeys(("log_oaves", "log_oaves_mappings", "log_orojenesis_mappings"), "no such log is written"),
    **dict.fromkeys(("log_stats", "log_suboptimal", "log_all_mappings", "log_mappings_yaml", "log_mappings_verbose"),
                    "the history is in fadiff.result.json"),
    "live_status": "progress is shown on the terminal",
    **dict.fromkeys(("diagnostics", "penalize_consecutive_bypass_fails"), "rejected mappings are not sampled"),
    "emit_whoop_nest": "no Whoop nest is written",
    "max_temporal_loops_in_a_mapping": "mappings are not limited by their number of loops",
    "filter_revisits": "mappings are not sampled",
    "max_permutations_per_if_visit": "loop orders are not enumerated",
    "out_prefix": "files are named after timeloop-mapper",
}
"""Options of `timeloop-mapper` that change nothing here -> the reason."""
MAPPER = table(
    _VERSION,
    ("optimization_metric optimization_metrics", kind(
        _metrics, f"one or a list of {', '.join(f'`{metric}`' for metric in METRICS)}",
        anyOf=[{"enum": list(METRICS)}, {"type": "array", "items": {"enum": list(METRICS)}}]), None,
     "metrics to minimise, most important first; by default edp"),
    ("num_threads", POSITIVE, None, "threads of the search"),
    *((name if "_" not in name else f"{name} {name.replace('_', '-')}", ANY, None, f"no effect: {why}")
      for name, why in IDLE_OPTIONS.items()))
ERT = table(("version", TEXT, "0.4", "version of the format"),
             ("tables", tables_of("energies"), REQUIRED, "one table per component"))
ENERGIES = table(_NAME, ("actions", tables_of("action"), REQUIRED, "its actions"))
ACTION = table(_NAME, ("energy", real(0), REQUIRED, "pJ"), ("arguments", MAP, None, "values of its arguments"))
ART = table(_VERSION, ("tables", tables_of("area"), REQUIRED, "one entry per component"))
AREA = table(_NAME, ("area", real(0), REQUIRED, "um^2"))
SPARSE = table(_VERSION, ("targets", tables_of("sparse target"), None, "one entry per level or arithmetic"))
V04_SPARSE_TARGET = table(("target name", TEXT, REQUIRED, "the level, or the arithmetic"))
SPARSE_TARGET = table(
    ("name target", TEXT, REQUIRED, "the level, or the arithmetic; v0.4 says `target`"),
    ("representation_format", table_of("representation format"), None, "formats in which the level stores tensors"),
    ("action_optimization", tables_of("action optimization"), None, "accesses that are gated or skipped"),
    ("compute_optimization", tables_of("compute optimization"), None, "computes that are gated or skipped"))
GATES, SKIPS = ("gate_on_zero_operand", "gating"), ("skip_on_not_aligned_operands", "skipping")
"""The two spellings of each optimization of computes."""
COMPUTE_OPTIMIZATION = table(("type", one(*GATES, *SKIPS), REQUIRED, "gated or skipped"))
ACTION_OPTIMIZATION = table(
    ("type", TEXT, REQUIRED, "`gating`, `skipping` or `skipping_spatial`"),
    ("options", tables_of("option"), None, "alternatives, of which the best is taken"),
    ("target", TEXT, None, "without options: the tensor whose accesses are saved"),
    ("condition_on", SPACES, None, "without options: the leader tensors, whose zeros save accesses"))
OPTION = table(
    ("target", TEXT, REQUIRED, "the tensor whose accesses are saved"),
    ("condition_on", SPACES, REQUIRED, "the leader tensors, whose zeros save accesses"))
REPRESENTATION_FORMAT = table(("data_spaces", tables_of("format"), None, "one entry per tensor"))
FORMAT = table(
    ("name", TEXT, REQUIRED, "the tensor"),
    ("rank_application_order", one("inner_to_outer", "outer_to_inner"), "outer_to_inner",
     "the end from which loops get ranks"),
    ("compression_rate", ANY, None, "not modelled"),
    ("ranks", tables_of("rank"), REQUIRED, "formats of the ranks, outermost first"))
RANK = table(
    ("format", TEXT, REQUIRED, f"{', '.join(f'`{name.upper()}`' for name in FORMATS)}"),
    ("flattened_rankIDs", LIST, None, "groups of dimensions that may be flattened into the rank"),
    ("metadata_word_bits", whole(0), None, "bits of a unit of metadata; by default 1 for a bitmask, else as the level"),
    ("payload_word_bits", whole(0), None, "bits of a unit of payload; by default as in the level"))

# The v0.4 dialect.
CONTAINER = table(
    _NAME, ("networks", ANY, None, "not read"),
    ("attributes", table_of("attributes"), None, "its attributes, handed inwards by containers"),
    ("spatial", table_of("spatial"), None, "its fan-out"),
    ("constraints", table_of("node constraints"), None, "constraints on its level or fan-out"),
    ("sparse_optimizations", MAP, None, "as in [sparse target](#sparse-target)"))
ENTRY = table(
    _NAME, ("class", TEXT, REQUIRED, COMPONENT["class"].meaning),
    ("required_actions", LIST, None, "actions that Accelergy is to price besides the usual ones"),
    ("subclass", TEXT, None, "class for Accelergy"),
    ("area_scale", real(0), None, "factor on its area"),
    ("energy_scale", real(0), None, "factor on its energies"),
    ("enabled", TRUTH, True, "whether the component exists")) | {
        key: CONTAINER[key] for key in ("attributes", "spatial", "constraints", "sparse_optimizations")}
V04_ARCHITECTURE = table(_V04_VERSION, ("nodes", tables_of("v0.4 node"), REQUIRED, "its nodes, from the outside in"))
V04_DOCUMENT = table(
    ("variables", ANY, None, "values that expressions name"),
    ("globals", table_of("globals"), None, "for Accelergy"),
    ("architecture", table_of("v0.4 architecture"), REQUIRED, "the design"),
    ("problem", table_of("problem"), REQUIRED, "the layer"),
    ("constraints", ANY, None, "constraints on the map space; also any other key that contains this word"),
    ("components", ANY, None, "classes of compound components; also any other key that contains this word"),
    ("mapping", LIST, None, "a mapping; the key may have other words around this one"),
    ("mapspace", table_of("map space"), None, "kind of the map space"),
    ("mapper", table_of("mapper"), None, "the search"),
    ("sparse_optimizations", table_of("sparse optimizations"), None, "treatment of zeros, besides the nodes' entries"),
    ("ERT", table_of("ERT"), None, "energies"), ("ART", table_of("ART"), None, "areas"),
    ("layout", ANY, None, "not modelled"), ("design_space", ANY, None, "read by the command `design`"))
"""The sections of a v0.4 document."""
GLOBALS = table(
    _V04_VERSION,
    ("expression_custom_functions", LIST, None, "none: expressions call no code from files"),
    ("accelergy_plug_ins", LIST, None, "for Accelergy"),
    ("environment_variables", MAP, None, "none of Timeloop's that change results"))
COMPONENTS = table(_V04_VERSION, ("classes", LIST, None, "classes of compound components, for Accelergy"))
BRANCH = table(("nodes", tables_of("v0.4 node"), None, "of a branch: its nodes, from the outside in"))
SPATIAL = table(("meshX", POSITIVE, 1, "instances along X"), ("meshY", POSITIVE, 1, "instances along Y"))
NODE_CONSTRAINTS = table(
    ("max_overbooked_proportion", ANY, None, "not modelled"),
    *((key, table_of("constraint"), None, f"{what}, as in [constraint](#constraint)") for key, what in (
        ("spatial", "spatial loops"), ("temporal", "temporal loops"), ("dataspace", "data spaces"))))
