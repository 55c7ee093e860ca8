"""The arguments of all commands, and how they are read."""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, NamedTuple, NoReturn, TypeVar

from fadiff_mapper.api import MOST_THREADS, NetworkOptions, SearchOptions
from fadiff_mapper.base.standard_streams import shortened
from fadiff_mapper.cli import commands
from fadiff_mapper.cli.commands import BAD_INPUT

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """A parser that reports wrong arguments in one line, like all other errors."""

    commands: Mapping[str, argparse.ArgumentParser] = {}
    """Name of a command -> its parser; only the program's own parser has commands."""

    def error(self, message: str) -> NoReturn:
        """Prints the error line and ends the program."""
        self.exit(BAD_INPUT, f"error: {shortened(message)}; see {self.prog} --help\n")


class Named(argparse.Action):
    """Collects NAME=VALUE in a dict; a repeated name is an error, as one of its values would have no effect."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
                 option_string: str | None = None) -> None:
        """Adds a name with its value."""
        name, value = values
        known = getattr(namespace, self.dest)
        if name in known:
            raise argparse.ArgumentError(self, f'found "{name}" twice; accepted: each name once')
        setattr(namespace, self.dest, {**known, name: value})


def typed(accepted: str, read: Callable[[str], T | None], text: str) -> T:
    """The value that `read` returns for the text of an argument; None or a ValueError is refused.

    `accepted`: the accepted texts in words.
    """
    value = None
    with suppress(ValueError):
        value = read(text)
    if value is None:
        raise argparse.ArgumentTypeError(f'found "{text}"; accepted: {accepted}')
    return value


def _whole(text: str, most: int = 1 << 63) -> int | None:
    return int(text) if WHOLE.fullmatch(text) and 1 <= int(text) <= most else None


def _pair(text: str, read: Callable[[str], T]) -> tuple[str, T] | None:
    """NAME=..., with any name."""
    name, _, value = text.rpartition("=")
    return (name, read(value)) if name else None


def _variable(text: str) -> tuple[str, str] | None:
    name, value = text.split("=", 1)
    return (name, value) if name.isidentifier() else None


def _number(text: str) -> tuple[str, int] | None:
    pair = _pair(text, str)
    return (pair[0], int(pair[1])) if pair and WHOLE.fullmatch(pair[1].removeprefix("-")) else None


def _limit(text: str) -> tuple[str, float] | None:
    name, _, value = text.rpartition("=")
    return (name.strip(), float(value)) if name.strip() else None


def _weights(text: str) -> tuple[float, ...] | None:
    values = tuple(map(float, text.split(",")))
    return values if all(0 < value < inf for value in values) else None


def _bits(text: str) -> dict[str, float] | str | None:
    if text == "auto":
        return text
    pairs = [part.split("=") for part in text.split(",")]
    found = {name: float(value) for name, value in pairs}
    return found if len(found) == len(pairs) else None


def _numbers(text: str) -> tuple[int, ...] | None:
    values = tuple(int(part) if part.strip().isdecimal() else 0 for part in text.split(","))
    return values if all(values) else None


def _shard(text: str) -> tuple[int, int] | None:
    own, _, shards = text.partition("/")
    return (int(own), int(shards)) if own.isdigit() and shards.isdigit() and 1 <= int(own) <= int(shards) else None


WHOLE = re.compile("[0-9]{1,18}")
"""A whole number that fits 64 bits."""
decimal = partial(typed, "a number", float)
positive = partial(typed, "a whole number >= 1", _whole)
jobs = partial(typed, f"a whole number from 1 to {MOST_THREADS}", lambda text: _whole(text, MOST_THREADS))
variable = partial(typed, "NAME=VALUE", _variable)
dimension = partial(typed, "NAME=N", lambda text: _pair(text, positive))
shape = partial(typed, "NAME=NxNxN", lambda text: _pair(text, lambda value: tuple(map(positive, value.split("x")))))
number = partial(typed, "NAME=N with a whole number", _number)
limit = partial(typed, "NAME=VALUE with a number", _limit)
weights = partial(typed, "numbers above 0 separated by commas", _weights)
numbers = partial(typed, "whole numbers >= 1 separated by commas", _numbers)
shard = partial(typed, "I/N with I from 1 to N", _shard)
bits = partial(typed, "NAME=N,... with bits from 1 to 256, each name once", _bits)
folder = partial(typed, "the name of a folder", lambda text: text if text and "\0" not in text else None)


class Argument(NamedTuple):
    """An argument of a command."""

    names: str  # its spellings, separated by blanks
    help: str
    settings: Mapping[str, Any] = {}  # further arguments of `ArgumentParser.add_argument`
    group: str = ""  # arguments of one group exclude each other


def add_arguments(parser: argparse.ArgumentParser, arguments: Iterable[Argument]) -> None:
    """Adds arguments of a command to its parser."""
    groups = defaultdict[str, Any](parser.add_mutually_exclusive_group)
    for names, text, settings, group in arguments:
        (groups[group] if group else parser).add_argument(*names.split(), help=text or None, **settings)


class Command(NamedTuple):
    """A command of the program."""

    run: Callable[[argparse.Namespace], int | None]  # returns the exit code; None: `DONE`
    help: str
    arguments: tuple[Argument, ...]
    description: str | None = None  # longer than `help`
    defaults: Mapping[str, Any] = {}  # defaults that replace those of shared arguments


FLAG = {"action": "store_true"}
READING = (
    Argument("-D", "a variable of the files' Jinja2 templates",
             {"dest": "variables", "action": Named, "default": {}, "type": variable, "metavar": "NAME=VALUE"}),
    Argument("--energy", "where energies come from that no ERT in the input gives: auto (default; Accelergy where it "
                         "is installed, else bundled tables, else an estimate), accelergy, bundled (else built-in), "
                         "estimate, dosa (its formulas for a Gemmini), built-in (Timeloop's values); the last three "
                         "also fill in what an ERT lacks",
             {"default": "auto", "metavar": "SOURCE"}, "energy"),
    Argument("--lenient", "warn, instead of refusing, where Timeloop ignores input or puts up with it, such as "
                          "misspelt attributes; the numbers are then Timeloop's", FLAG),
    Argument("--built-in-energies", "the same as --energy built-in",
             {"action": "store_const", "dest": "energy", "const": "built-in"}, "energy"))
"""Arguments for reading Timeloop files."""
BITS = Argument("--bits", "bits of an element of each tensor, such as Weights=4,Inputs=8, in place of the input's; of "
                          "a network of PyTorch or ONNX also auto, as its types say; a word of each level by default",
                {"type": bits, "metavar": "NAME=N,..."})
INPUTS = (Argument("files", "", {"nargs": "+", "metavar": "FILES"}), *READING, BITS)
VERIFY = Argument("--verify", "have the real timeloop-model on the PATH compute the same and compare every number",
                  FLAG)
OUTPUT = Argument("-o --output", "folder for the results", {"required": True, "type": folder, "metavar": "DIR"})
SEED = Argument("--seed", "same seed, same answer (default 0)", {"type": int, "default": 0})
JOBS = Argument("--jobs", "threads (default: all cores)", {"type": jobs, "metavar": "N"})
SEARCH = (
    OUTPUT, SEED,
    Argument("--time-limit", "stop with the best so far", {"type": decimal, "metavar": "SECONDS"}),
    JOBS,
    Argument("--quiet", "print errors only", FLAG),
    VERIFY,
    Argument("--calibration", "correct cycles to measured hardware, by a file of the command calibrate; mappings are "
                              "chosen by corrected cycles, and nothing is fused", {"metavar": "MODEL"}),
    Argument("--force", "use the calibration even where it does not beat the exact model", FLAG))
"""Arguments for searches of layers, networks and designs."""
MODEL = Argument("--model", "the model that the method gradient descends on: refined (default), or paper for FADiff's "
                            "equations as printed", {"default": SearchOptions.model, "metavar": "NAME"})
FOLDING = Argument("--no-folding", "every transpose, slice, concatenation, repetition and padding is a copy of its "
                                   "own, in place of another order in which the operators around it read and write",
                   FLAG)
NETWORKS = (
    Argument("--dim", "a number for a named dimension of an ONNX model's inputs, such as batch=1",
             {"dest": "dims", "action": Named, "default": {}, "type": dimension, "metavar": "NAME=N"}),
    Argument("--shape", "the whole shape of an ONNX model's input, such as x=1x3x48x320",
             {"dest": "shapes", "action": Named, "default": {}, "type": shape, "metavar": "NAME=NxNxN"}),
    Argument("--value", "the number that an ONNX model's input is, where conditions or shapes hang on it, such as "
                        "rate=16000",
             {"dest": "values", "action": Named, "default": {}, "type": number, "metavar": "NAME=N"}),
    Argument("--busy-experts", "spread the rows of mixtures of experts evenly over N experts; by default over those "
                               "that the file says", {"type": int, "metavar": "N"}),
    FOLDING)
"""Arguments for reading network files."""
VARY = Argument("--vary", "a variable of the files' Jinja2 templates is a parameter of the space of designs: 8,16,32 "
                          "or 1024:8192:512 or 8:64:x2 (powers of two)",
                {"action": "append", "default": [], "metavar": "NAME=RANGE"})
SPACES = (
    Argument("--arch", "a further file of the space, such as the architecture that the space refers to",
             {"action": "append", "default": [], "metavar": "FILE"}),
    VARY,
    Argument("--limit", "the greatest area_mm2, leakage_pj, units, or value of an expression over the parameters; "
                        "takes the place of the space's own",
             {"dest": "limits", "action": Named, "default": {}, "type": limit, "metavar": "NAME=VALUE"}),
    Argument("--weights", "how often each network runs (default 1)", {"type": weights, "metavar": "W,W,..."}))
"""Arguments that say which designs are compared, and for which networks."""

COMMANDS = {
    "quickstart": Command(commands.quickstart, "make a folder with a small design, layer, network and space to try and "
                                               "to change", (
        Argument("folder", "the folder to make", {"type": folder, "metavar": "DIR"}),
    )),
    "check": Command(commands.check, "read and validate; print what was understood, of a space of designs its "
                                     "parameters and its size", (*INPUTS, VARY)),
    "evaluate": Command(commands.evaluate, "what timeloop-model computes for the mapping in the input", (
        *INPUTS,
        Argument("--json", "all numbers as JSON; infinite ones are null", FLAG),
        VERIFY,
    )),
    "map": Command(commands.map_problems, "find good mappings and write them as timeloop-mapper does", (
        *INPUTS,
        *SEARCH,
        Argument("--metric", "edp, energy, delay or last_level_accesses (default: the input's, else edp); repeat it "
                             "for further priorities",
                 {"action": "append", "metavar": "NAME"}),
        Argument("--warm-start", "a mapping to improve on", {"metavar": "FILE.map.yaml"}),
        Argument("--method", "annealing (default): simulated annealing on the exact model; gradient: the same from "
                             "the ends of gradient descents (FADiff; needs PyTorch); exhaustive: every mapping, the "
                             "true optimum of a small problem",
                 {"default": SearchOptions.method, "metavar": "NAME"}, "method"),
        Argument("--exhaustive", "the same as --method exhaustive",
                 {"action": "store_const", "dest": "method", "const": "exhaustive"}, "method"),
        MODEL,
        Argument("--exhaustive-limit",
                 f"mappings above which that is refused (default {SearchOptions.exhaustive_limit:,})",
                 {"type": positive, "metavar": "N", "default": SearchOptions.exhaustive_limit}),
        Argument("--effort", "how long each problem is searched: light, quick, short or full (default)",
                 {"default": SearchOptions.effort, "metavar": "NAME"}),
        Argument("--imperfect", "also search factors that do not divide their dimension (Timeloop's imperfect factors)",
                 FLAG),
        Argument("--prove", "go on until it is proved that no mapping is better (dense designs)", FLAG),
        Argument("--gap", "with --prove: stop once the mapping is so close to the least bound (default 0)",
                 {"type": decimal, "default": 0.0, "metavar": "SHARE"}),
        Argument("--certificate", "with --prove: the proof of one problem, for `fadiff-validate certificate`",
                 {"metavar": "FILE.json"}),
        Argument("--sensitivities", "also store what a little more of each constant of the machine would change", FLAG),
    )),
    "network": Command(commands.map_network, "map every layer of a network and fuse layers where that helps", (
        Argument("network", "a network file, an ONNX model, a folder of problems with edges.yaml, or "
                            "bundled:networks/NAME", {"metavar": "NET"}),
        *INPUTS,
        *SEARCH,
        Argument("--metric", "of the whole network: edp (default), energy or delay",
                 {"default": NetworkOptions.metric, "metavar": "NAME"}),
        Argument("--no-fusion", "every layer by itself", FLAG),
        Argument("--allow-partial", "map what is understood, even where that is less than 90 %% of the network", FLAG),
        *NETWORKS,
        Argument("--method", "annealing (default): annealed mappings and enumerated groups; gradient: also the "
                             "groups of a gradient descent on the mappings and fusion of all layers together "
                             "(FADiff; needs PyTorch)",
                 {"default": NetworkOptions.method, "metavar": "NAME"}),
        MODEL,
        Argument("--longest", f"layers of a fused group at most (default {NetworkOptions.longest})",
                 {"type": positive, "default": NetworkOptions.longest, "metavar": "N"}),
        Argument("--gap", "end as soon as the plan is proven to be at most so far above the best one, such as 0.01",
                 {"type": decimal, "metavar": "SHARE"}),
        Argument("--certificate", "the proof of the gap, for `fadiff-validate certificate`; without searched tiles, so "
                                  "its gap may be larger", {"metavar": "FILE.json"}),
    )),
    "design": Command(commands.design, "find the design of a space that is best for networks", (
        Argument("space", "an architecture with the section design_space, or bundled:spaces/NAME",
                 {"metavar": "SPACE"}),
        Argument("networks", "a network file, an ONNX model, a folder of problems with edges.yaml, or "
                             "bundled:networks/NAME", {"nargs": "+", "metavar": "NETWORK"}),
        *SPACES,
        *SEARCH,
        Argument("--metric", "edp (default), energy, delay, area, edap, or a product such as energy*area; given two "
                             "or three times, the Pareto front is searched", {"action": "append", "metavar": "NAME"}),
        Argument("--no-fusion --layers-alone", "every layer by itself, as map maps it; else networks are planned as "
                                               "network plans them", FLAG),
        Argument("--method", "bounds (the designs of the best lower bounds), gradient (also those of descents on "
                             "hardware, mappings and fusion together, as in DOSA; needs PyTorch), random, "
                             "exhaustive, tpe or nsga2 (these two need optuna); default: gradient, or bounds without "
                             "PyTorch", {"metavar": "NAME"}),
        Argument("--evaluations", "designs to map at most; designs beside the best one come on top, at most as many "
                                  "again", {"type": positive, "metavar": "N"}),
        Argument("--backend", "who carries the work: processes (default; those of this machine), or dask or ray",
                 {"default": "processes", "metavar": "NAME"}),
        Argument("--address", "the cluster's scheduler, such as tcp://host:8786", {"metavar": "URL"}),
        Argument("--per-round", "designs proposed at a time (default 8, for random and exhaustive 64), on which the "
                                "answer depends; for clusters of more workers", {"type": positive, "metavar": "N"}),
        Argument("--shard", "evaluate only every N-th of the designs, starting with the I-th; for array jobs that "
                            "share a --store", {"type": shard, "metavar": "I/N"}),
        Argument("--gap", "go on until the best design is proven to be at most so far above the best one of the "
                          "whole space: every other design is bounded, and mapped where it could be better by more",
                 {"type": decimal, "metavar": "SHARE"}),
        Argument("--certificate", "with --gap: the proof of the gap, for `fadiff-validate certificate`; without "
                                  "searched tiles, so its gap may be larger", {"metavar": "FILE.json"}),
        Argument("--store", "the folder that keeps all that is evaluated; runs may share it (default: store in the "
                            "output folder)", {"metavar": "FOLDER"}),
        Argument("--study", "take part in the search of that name in the --store, with all runs of the same command "
                            "that name it (tpe, nsga2)", {"metavar": "NAME"}),
        *READING,
        BITS,
        Argument("--allow-partial", "design for what is understood, even where that is less than 90 %% of a network",
                 FLAG),
        *NETWORKS,
    ), defaults={"energy": None}),
    "infer": Command(commands.infer, "what the inference of a language model costs on a design", (
        Argument("model", "a config.json of Hugging Face's transformers (weights are not read), or bundled:models/NAME",
                 {"metavar": "MODEL"}),
        Argument("files", "the files of the design", {"nargs": "+", "metavar": "DESIGN"}),
        OUTPUT,
        Argument("--batch", "sequences at once, each an inference of its own (default 1)",
                 {"type": numbers, "default": [1], "metavar": "N,N,..."}),
        Argument("--prompt", "tokens of a sequence (default 2048)", {"type": int, "default": 2048, "metavar": "N"}),
        Argument("--generate", "tokens to generate (default 512)", {"type": int, "default": 512, "metavar": "N"}),
        Argument("--bits", "bits of an element of Weights, Cache and Activations, such as Weights=4,Cache=8; a word "
                           "of each memory by default", {"type": bits, "metavar": "NAME=N,..."}),
        Argument("--frequency", "cycles a second, in place of the design's", {"type": decimal, "metavar": "HZ"}),
        Argument("--metric", "by which problems are mapped: edp (default), energy or delay",
                 {"default": NetworkOptions.metric, "metavar": "NAME"}),
        SEED,
        JOBS,
        Argument("--serving-profile", "also write time tables as LLMServingSim reads them, into DIR/llmservingsim",
                 FLAG),
        Argument("--fuse", "run operators in fused groups where that pays", FLAG),
        FOLDING,
        *READING,
    )),
    "calibrate": Command(commands.calibrate, "learn a correction of cycles from measured hardware", (
        Argument("measured", "", {"metavar": "MEASURED.csv"}),
        Argument("arch", "the measured design, as file or files", {"nargs": "+", "metavar": "ARCH"}),
        Argument("-o --output", "the calibration to write (JSON)", {"required": True, "metavar": "MODEL"}),
        Argument("--program", "what runs a mapping on the hardware: as-mapped (the loops of the mapping) or gemmini "
                              "(Gemmini's library); default: what predicts layers not learned from best",
                 {"metavar": "NAME"}),
        Argument("--seed", "of the split by layer (default 0)", {"type": int, "default": 0}),
    ), "MEASURED.csv has one measured point a row: rtl_cycles (or cycles), mapping (in one line, or the name of a "
        "YAML file), and the layer: R S P Q C K N with Wstride Hstride Wdilation Hdilation, or problem, the name of "
        "a YAML file; part=searched marks points that a search proposed, by which the correction is judged and from "
        "which it does not learn."),
    "explain": Command(commands.explain, "where the numbers of a finished run come from", (
        Argument("folder", "a folder that `map` has written", {"type": folder, "metavar": "DIR"}),
        Argument("--count", "one access count as the product of the loops that cause it, such as DRAM Inputs reads",
                 {"nargs": 3, "metavar": ("LEVEL", "DATASPACE", "ACTION")}),
        Argument("--json", "everything as JSON", FLAG),
    )),
    "import": Command(commands.import_network, "read a network and write it as a network file", (
        Argument("model", "", {"metavar": "MODEL"}),
        Argument("-o --output", "the network file to write (YAML)", {"required": True, "metavar": "FILE"}),
        BITS,
        *NETWORKS,
    ), "MODEL is an ONNX model, a folder of Timeloop problems with edges.yaml, or a network file. PyTorch modules "
        "are code, so they come in from Python only: fadiff_mapper.load_network(module, inputs)."),
    "schema": Command(commands.schema, "print the JSON Schema of a kind of file, for an editor", (
        Argument("kind", "arch, problem, mapping, mapper, constraints, sparse, units, ERT, ART, space, network, edges "
                         "or model",
                 {"metavar": "KIND"}),
    )),
    "bundled": Command(commands.bundled, "list the designs and workloads that come with this program", (
        Argument("prefix", "only those whose name begins so, such as layers/resnet18", {"nargs": "?", "default": ""}),
    )),
    "doctor": Command(commands.doctor, "what is installed here and what that enables", ()),
    "shim": Command(commands.shim, "write launchers by which unchanged Timeloop scripts run this program", (
        Argument("folder", "where they go; put it first on the PATH", {"type": folder, "metavar": "DIR"}),
        Argument("--remove", "remove them instead", FLAG),
        Argument("--seed", "seed of every search that the launchers start", {"type": int}),
        Argument("--time-limit", "time limit of every such search", {"type": decimal, "metavar": "SECONDS"}),
    )),
    "mcp": Command(commands.mcp, "serve check, evaluate, map, network, design and explain to language models, by the "
                                 "Model Context Protocol", (
        Argument("--folder", "the folder that tools read and write (default: the working folder)",
                 {"type": folder, "default": ".", "metavar": "DIR"}),
        Argument("--time-limit", "of a call at most (default 120)",
                 {"type": decimal, "default": 120.0, "metavar": "SECONDS"}),
    )),
}
"""Commands by name, in the order of the help."""
