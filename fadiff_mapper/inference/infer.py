"""The inference of a language model on a design: the whole prompt at once, then token after token.

Every distinct problem of all layers, batches and lengths is mapped once, by itself, and counted with its equal layers.
Operators run in turn, each with its tiles double-buffered, so that the slowest of unit and memories sets its time. Or
each step is planned with fused groups (`network.map_network`), each of which counts as one operator. Costs at other
lengths of the cache are interpolated, as weighed sums of the costs of mapped steps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fadiff_mapper.base.deadline import Over
from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.base.extras import require
from fadiff_mapper.fusion import Hardware
from fadiff_mapper.fusion.group_cost import memories_busy
from fadiff_mapper.fusion.prices import on_best_unit
from fadiff_mapper.fusion.segments import links_within
from fadiff_mapper.inference.blocks import ends_network, layer_network
from fadiff_mapper.inference.language_model import LanguageModel, TracedModel
from fadiff_mapper.inputs.native.arch import cycle_seconds
from fadiff_mapper.inputs.native.problem import literal_bits, with_bits
from fadiff_mapper.inputs.spec.problem import DataSpace
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.located import Map, known, mapping
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.model.vector_cost import AND, VectorCost, memory_cycles, vector_costs
from fadiff_mapper.network.map_network import plan_network
from fadiff_mapper.network.one_design import Design, specs_of
from fadiff_mapper.network.options import METRICS, NetworkOptions
from fadiff_mapper.network.planning_clock import PlanningClock
from fadiff_mapper.network.result import GroupInNetwork
from fadiff_mapper.search.map_layers import map_layers
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import Node, Operator, Workload
from fadiff_mapper.workload.operations import VectorOperator

if TYPE_CHECKING:
    from pandas import DataFrame

PAGE = 128
"""Mapped lengths of a cache are multiples of so many tokens, the width of a usual array."""
MAPPED_LENGTHS = 3  # lengths of the cache that are mapped: first, middle, last
PHASES = ("prefill", "decode")
MOST_GENERATED = 2 ** 20  # tokens: a plain safety limit, as each is a row of a table
GROUP = "group"
"""The kind of a fused group."""
NOT_COUNTED = "not counted"
"""The unit of operators without multiply-accumulates, on a design without compute units."""


@dataclass(frozen=True)
class OperatorShare:
    """One operator of one step, with all its runs in layers of one kind."""

    phase: str  # "prefill" or "decode"
    batch: int  # sequences
    length: int  # tokens to which the last new token attends, itself included
    steps: float  # number of steps that this mapped step stands for, by interpolation
    layers: str  # the kind of layers, or "ends"
    operator: str  # its name; of a fused group the names of its layers
    kind: str  # its operation; a template for multiply-accumulates, `GROUP` for a fused group
    unit: str  # the unit, or units, on which it runs
    bound: str  # the unit or memory that sets its time
    runs: int
    macs: int  # multiply-accumulates of all runs
    operations: int  # other operations of all runs
    cycles: float  # of all runs
    energy_pj: float  # of all runs
    outermost_words: float  # words that the outermost memory reads and writes
    busy: Mapping[str, float]  # unit or memory -> cycles that it needs for all runs


@dataclass(frozen=True)
class BatchOutcome:
    """The inference of one batch of sequences; seconds and joules of the whole batch."""

    batch: int
    first_token_s: float  # of the prefill, which gives the first token
    first_token_j: float
    steps: tuple[tuple[int, float, float], ...]  # further tokens: length, seconds, joules
    weight_words: int  # words of all weights
    cache_words: int  # words of the cache after the last token
    weights_in: str  # the memory that holds weights and the tensors between operators
    cache_in: str  # the memory that holds the cache

    @property
    def further_token_s(self) -> tuple[float, float] | None:
        """Seconds of the first and the last token after the prefill; None where there is no such token."""
        return (self.steps[0][1], self.steps[-1][1]) if self.steps else None

    @property
    def seconds(self) -> float:
        return self.first_token_s + sum(seconds for _, seconds, _ in self.steps)

    @property
    def joules(self) -> float:
        return self.first_token_j + sum(joules for *_, joules in self.steps)

    @property
    def tokens(self) -> int:
        """Generated tokens of all sequences."""
        return self.batch * (1 + len(self.steps))

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens a second, the time of the prefill included."""
        return self.tokens / self.seconds

    @property
    def joules_per_token(self) -> float:
        return self.joules / self.tokens


@dataclass(frozen=True)
class InferenceResult:
    """The costs of a model's inference on a design."""

    model: LanguageModel | TracedModel
    design: str  # name of the design
    prompt: int
    generate: int
    cycle_s: float  # seconds of a cycle
    macs_per_cycle: int  # multiply-accumulators of the design
    words_per_cycle: float | None  # bandwidth of its outermost memory, reads and writes together; None is unlimited
    batches: tuple[BatchOutcome, ...]
    operators: tuple[OperatorShare, ...]  # of every mapped step
    mapped: tuple[Result, ...]  # the mapping of every distinct problem
    folded: Mapping[str, int]  # operation -> rearrangements, in one layer of each kind, folded into their neighbours
    fuse: bool = False  # whether steps may have fused groups

    @property
    def order(self) -> str:
        """The order in which operators run, as a sentence."""
        if not self.fuse:
            return "Operators run in turn: fused groups (--fuse) are not looked for."
        names = dict.fromkeys(share.operator for share in self.operators if share.kind == GROUP)
        return f"Operators run in turn, tile by tile in fused groups: {'; '.join(names) or 'none, as none pays'}."

    def uncounted(self) -> dict[int, tuple[int, int]]:
        """Batch -> (operators, operations) of a whole inference that run on no unit, and so cost nothing here."""
        found: dict[int, tuple[int, int]] = {}
        for share in self.operators:
            if share.unit == NOT_COUNTED:
                before = found.get(share.batch, (0, 0))
                found[share.batch] = (before[0] + round(share.steps * share.runs),
                                      before[1] + round(share.steps * share.operations))
        return found

    def shares(self, batch: int, *names: str) -> dict[tuple[str, ...], tuple[float, float]]:
        """Seconds and joules of a whole inference by values of operators' fields, such as "bound"; largest first."""
        found: dict[tuple[str, ...], tuple[float, float]] = {}
        for share in self.operators:
            if share.batch == batch:
                key = tuple(str(getattr(share, name)) for name in names)
                seconds, joules = found.get(key, (0.0, 0.0))
                found[key] = (seconds + share.steps * share.cycles * self.cycle_s,
                              joules + share.steps * share.energy_pj * 1e-12)
        return dict(sorted(found.items(), key=lambda entry: -entry[1][0]))

    def busy(self, batch: int, phase: str) -> dict[str, float]:
        """Seconds that each unit and each memory of limited bandwidth needs in a phase of a whole inference.

        The longest comes first. The phase would take as long if all units and memories always worked side by side.
        """
        found: Counter[str] = Counter()
        for share in self.operators:
            if (share.batch, share.phase) == (batch, phase):
                found.update({name: share.steps * cycles * self.cycle_s
                              for name, cycles in share.busy.items()})
        return {name: float(seconds) for name, seconds in found.most_common() if seconds}

    def to_dataframe(self) -> DataFrame:
        """A pandas table: a row for each operator of each mapped step. Raises FadiffError without pandas."""
        require("pandas", "pandas", "to_dataframe()")
        from fadiff_mapper.output.frames import inference_frame
        return inference_frame(self)


@dataclass(frozen=True)
class Step:
    """A network that runs `count` times in each of `steps` steps."""

    phase: str
    batch: int
    length: int
    steps: float
    layers: str
    network: Workload
    count: int


@dataclass(frozen=True)
class InferenceQuestion:
    """The input of a costed inference; fields are the arguments of `api.infer`."""

    model: LanguageModel | TracedModel
    design: Design
    batch: Sequence[int]
    prompt: int
    generate: int
    frequency: float | None
    metric: str
    seed: int
    jobs: int | None
    energy: str
    strict: bool
    bits: Any
    fold: bool
    fuse: bool
    stopped: Over


def infer(question: InferenceQuestion) -> InferenceResult:
    """Finds time and energy of an inference; raises the errors of `api.infer`."""
    model, batch, prompt, generate = question.model, question.batch, question.prompt, question.generate
    _check(question)
    steps = [step if question.fold else replace(step, network=step.network.unfolded())
             for number in batch for step in _steps(model, number, prompt, generate)]
    kinds = {step.layers: Counter(step.network.rearrangements()) for step in reversed(steps)}
    found = mapped_steps(question, steps, dict.fromkeys(batch, prompt + generate - 1))
    operators = tuple(share for step in found.steps for share in found.shares(step))
    arch = found.spec.arch
    outcomes = tuple(_outcome(model, number, prompt, generate, found.cycle_s, operators, [
        arch.levels[level].name for level in found.homes[number]]) for number in batch)
    return InferenceResult(model, arch.name.removesuffix("_top_level"), prompt, generate, found.cycle_s,
                           arch.arithmetic.instances, arch.levels[-1].total_bandwidth, outcomes, operators,
                           tuple(found.results.values()), dict(sum(kinds.values(), Counter())), question.fuse)


TENSORS = ("Weights", "Cache", "Activations")
"""The tensors whose elements may have bits of their own."""
ATTENTION = ("attention.scores", "attention.cap", "attention.softmax", "attention.values")
"""The nodes that read the cache, and so run from the memory that holds it."""


def _with_bits(network: Workload, tensors: Mapping[str, DataSpace]) -> Workload:
    """The network with the bits of elements in every problem; keys and values have the bits of the cache."""
    def of(node: Node, layer: Operator) -> Node:
        right = ("Weights" if "Weights" not in node.operands else "Cache" if node.name in ATTENTION else "Activations")
        spaces = tuple(replace(space, bits=tensors[right if space.name == "Weights" else "Activations"].bits)
                       for space in layer.problem.dataspaces)
        widths = Map(literal_bits(spaces).get("bits", {}), where=Where("bits"))
        return replace(node, layer=layer.with_bits(widths))
    if all(space.bits is None for space in tensors.values()):
        return network
    return replace(network, nodes=tuple(of(node, node.layer) if node.layer else node for node in network.nodes))


def _homes(model: LanguageModel | TracedModel, batch: int, length: int, steps: Sequence[Step], spec: Spec,
           tensors: Mapping[str, DataSpace]) -> tuple[int, int]:
    """(level of weights, level of the cache): the innermost memory with room for all weights and the tensors of the
    largest operator, and the innermost memory from there outwards with room for the cache, too; else the outermost."""
    passing = max(sum(math.prod(shapes[name] or ()) for name in {node.name, *node.inputs})
                  for step in steps if step.batch == batch
                  for shapes in [{node.name: node.shape for node in step.network.nodes}] for node in step.network.nodes)
    elements = {"Weights": weight_words(model), "Cache": cached_words(model, batch, length), "Activations": passing}
    outermost, levels, first = len(spec.arch.levels) - 1, spec.arch.levels, None
    for index, level in enumerate(levels[:-1]):
        names = (None, *(inner.name for inner in levels[:index + 1]))
        gated_outside = any(inner.power_gated_at not in names for inner in levels[:index + 1])
        if (level.is_dummy or level.usable is None or level.instances > 1 or spec.constraints.levels[index].bypass
                or spec.sparse or gated_outside):
            continue  # it cannot be the outermost memory of a design
        words = {name: number * tensors[name].words(level.word_bits) for name, number in elements.items()}
        room = level.usable - (words["Weights"] + words["Activations"] if first is None else 0)
        first = index if first is None and room >= 0 else first
        if first is not None and room >= words["Cache"]:
            return first, index
    return outermost if first is None else first, outermost


def _without_outer_levels(spec: Spec, level: int) -> Spec:
    """The problem on the design without the memories further out."""
    named = tuple(one for one in spec.arch.named_interconnects if max(one.inwards or 0, one.outwards or 0) <= level)
    return replace(spec, arch=replace(spec.arch, levels=spec.arch.levels[:level + 1], named_interconnects=named),
                   constraints=replace(spec.constraints, levels=spec.constraints.levels[:level + 1]))


def _check(question: InferenceQuestion) -> None:
    """Raises FadiffError for a number out of range, or a request that the model or fused groups cannot serve."""
    model, batch, prompt, generate = question.model, question.batch, question.prompt, question.generate
    frequency = question.frequency
    for name, values in (("batch", batch), ("prompt", [prompt]), ("generate", [generate])):
        for value in values or [0]:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise FadiffError(f"{name}: found {value}; accepted: a whole number >= 1")
    if question.metric not in METRICS:
        raise FadiffError(f"metric: found {question.metric!r}; accepted: {listed(METRICS)}")
    if len(set(batch)) < len(batch):
        raise FadiffError(f"batch: found {', '.join(map(str, batch))}; accepted: each number once")
    if frequency is not None and not 0 < frequency < float("inf"):
        raise FadiffError(f"frequency: found {frequency}; accepted: cycles a second > 0")
    if generate > MOST_GENERATED:
        raise FadiffError(f"generate: found {generate}; accepted: at most {MOST_GENERATED}")
    if isinstance(model, TracedModel):
        if generate > 1:
            raise FadiffError(f"generate: found {generate} for {model.name}, a module without a configuration, whose "
                              "cache of keys and values is not known; accepted: 1 (the prompt alone), or a module of "
                              "transformers, its configuration, or its config.json")
    elif prompt + generate > model.context:
        raise FadiffError(f"prompt: found {prompt} tokens and {generate} to generate, {model.name} is made for "
                          f"{model.context}; accepted: at most so many together")
    if question.fuse and question.bits:
        raise FadiffError("fuse: found with bits; accepted: one of them, as operators in groups work on whole words")


def lengths_of(model: LanguageModel | TracedModel, prompt: int, generate: int) -> tuple[int, ...]:
    """The lengths of the cache that are mapped: multiples of `PAGE` that span all steps, and windows between these."""
    if generate == 1:
        return ()
    first, last = (max((prompt + 1) // PAGE, 1) * PAGE, -(-(prompt + generate - 1) // PAGE) * PAGE)
    found = {round(length / PAGE) * PAGE for length in np.linspace(first, max(first, last), MAPPED_LENGTHS)}
    return tuple(sorted(found | {layers.window for layers in model.layers
                                 if layers.window is not None and first < layers.window < last}))


def _steps(model: LanguageModel | TracedModel, batch: int, prompt: int, generate: int) -> Iterator[Step]:
    if isinstance(model, TracedModel):
        yield Step("prefill", batch, prompt, 1, model.layers[0].name, model.prompt_network(batch, prompt), 1)
        return
    lengths, further = lengths_of(model, prompt, generate), np.arange(prompt + 1, prompt + generate)
    times = (float(np.interp(further, lengths, row).sum()) for row in np.eye(len(lengths)))
    for phase, tokens, length, steps in (("prefill", prompt, prompt, 1), *(
            ("decode", 1, length, steps) for length, steps in zip(lengths, times, strict=True))):
        for layers in model.layers:
            yield Step(phase, batch, length, steps, layers.name,
                       layer_network(model, layers, batch, tokens, length - tokens), layers.count)
        yield Step(phase, batch, length, steps, "ends", ends_network(model, batch, tokens), 1)


@dataclass(frozen=True)
class MappedSteps:
    """Steps of an inference (prefill, decode) on a design, with a mapping of every distinct problem."""

    question: InferenceQuestion
    steps: Sequence[Step]  # with the bits of elements in every problem
    spec: Spec  # the design with any problem
    cycle_s: float  # seconds of a cycle
    homes: Mapping[int, tuple[int, int]]  # batch -> (level of weights and tensors between operators, of the cache)
    tensors: Mapping[str, DataSpace]  # `TENSORS` with the bits of their elements
    results: Mapping[tuple[int, Hashable], Result]  # by the level from which a problem runs, and its key

    def home(self, step: Step, node: str) -> int:
        """The level in which the operands of a step's node lie, the outermost level that the node uses."""
        return self.homes[step.batch][node in ATTENTION]

    def groups(self, step: Step) -> tuple[GroupInNetwork, ...]:
        """The fused groups of a step; none where the cache lies further out than the weights."""
        level, cache = self.homes[step.batch]
        if not self.question.fuse or level != cache:
            return ()
        mapped = [self.results[level, entry.layer.key] for entry in step.network.distinct()]
        options = NetworkOptions(self.question.metric, True, self.question.seed, threads=self.question.jobs)
        return plan_network(step.network, tuple(result.spec for result in mapped), options, mapped=mapped,
                            clock=PlanningClock(None, self.question.stopped)).groups

    def shares(self, step: Step) -> Iterator[OperatorShare]:
        """The operators of a step in order; a fused group in the place of its last layer."""
        vectors = {operator.node: operator for operator in step.network.vector_operators()}
        inside = {name: group for group in self.groups(step) for name in (
            *group.nodes, *(between for link in links_within(step.network, group.nodes) for between in link.through))}
        for node in step.network.nodes:
            operator = vectors.get(node.name)
            if group := inside.get(node.name):
                if node.name == group.nodes[-1]:
                    yield _group_share(step, group, [own for name, own in vectors.items() if inside.get(name) is group],
                                       _without_outer_levels(self.spec, self.homes[step.batch][0]))
            elif node.layer:
                result = self.results[self.home(step, node.name), node.layer.key]
                stats = result.stats
                busy = {str(stats.arithmetic["name"]): float(stats.arithmetic["cycles"])}
                for memory, level in zip(stats.levels, result.spec.arch.levels, strict=True):
                    busy[level.name] = memory_cycles(level, *(  # words at the bandwidth that the mapping takes
                        memory["cycles"] * sum(space[port] for space in memory["dataspaces"].values())
                        for port in ("read_bandwidth", "write_bandwidth")))
                yield _share(step, node.name, node.op, str(stats.arithmetic["name"]), step.count * node.layer.repeat,
                             busy, macs=node.layer.problem.computes, operations=0, cycles=stats.cycles,
                             energy_pj=stats.energy_pj, outermost_words=stats.of("last_level_accesses"))
            elif operator:
                cost, words = VectorCost(NOT_COUNTED, 0, 0, NOT_COUNTED, {NOT_COUNTED: 0}), 0
                if self.spec.arch.units:
                    arch = _without_outer_levels(self.spec, self.home(step, node.name)).arch
                    words = operator.read + operator.written
                    cost = on_best_unit(vector_costs(operator, arch, self.spec.tables, self.tensors["Activations"]),
                                        self.question.metric)
                yield _share(step, node.name, node.op, cost.unit, step.count, cost.busy, macs=0,
                             operations=sum(operator.operations.values()), cycles=cost.cycles,
                             energy_pj=cost.energy_pj, outermost_words=words)


def mapped_steps(question: InferenceQuestion, steps: Sequence[Step], lengths: Mapping[int, int]) -> MappedSteps:
    """Maps every distinct problem of some steps once; `lengths`: by batch, tokens for which the cache needs room."""
    given = mapping(dict(question.bits) if isinstance(question.bits, Mapping) else question.bits, Where("bits"))
    for name in given:
        known(name, given.at(name), TENSORS, "tensor")
    tensors = {space.name: space for space in with_bits([DataSpace(name, ()) for name in TENSORS], given)}
    steps = [replace(step, network=_with_bits(step.network, tensors)) for step in steps]
    every = Workload(question.model.name, tuple(node for step in steps for node in step.network.layers), ())
    specs = specs_of(every, question.design, question.energy, question.strict, question.stopped)
    cycle_s = 1 / question.frequency if question.frequency else cycle_seconds(specs[0].arch, specs[0].literal)
    if cycle_s is None:
        raise FadiffError("the design has no clock; accepted: global_cycle_seconds among the attributes of its "
                          "outermost container, or --frequency HZ")
    homes = {number: _homes(question.model, number, length, steps, specs[0], tensors)
             for number, length in lengths.items()}
    found = MappedSteps(question, steps, specs[0], cycle_s, homes, tensors, {})
    spec_of = {entry.layer.key: spec for entry, spec in zip(every.distinct(), specs, strict=True)}
    wanted = list(dict.fromkeys((found.home(step, node.name), node.layer.key) for step in steps
                                for node in step.network.layers if node.layer))
    mapped = map_layers([_without_outer_levels(spec_of[key], level) for level, key in wanted],
                        SearchOptions((question.metric,), question.seed, threads=question.jobs),
                        stopped=question.stopped, bounds=False)
    return replace(found, results=dict(zip(wanted, mapped, strict=True)))


def _group_share(step: Step, fused: GroupInNetwork, operators: Sequence[VectorOperator], spec: Spec) -> OperatorShare:
    """A fused group with the operators between its layers, on the array and their units."""
    cost, repeat, array = fused.cost, fused.group.repeat, spec.arch.arithmetic.name
    outermost = spec.arch.levels[-1].name
    busy = cost.busy or {array: sum(layer.cycles for layer in cost.layers),
                         **memories_busy(Hardware(spec.arch, spec.tables), cost.layers)}
    words = sum(moved.reads + moved.fills + moved.updates for layer in cost.layers
                for (level, _), moved in layer.traffic.items() if level == outermost)
    return _share(step, " + ".join(fused.nodes), GROUP,
                  AND.join(dict.fromkeys([array, *(own.unit for own in cost.operators)])), step.count,
                  {name: repeat * cycles for name, cycles in busy.items()},
                  macs=repeat * sum(layer.computes for layer in cost.layers),
                  operations=sum(sum(own.operations.values()) for own in operators),
                  cycles=cost.cycles, energy_pj=cost.energy_pj,
                  outermost_words=repeat * (words + sum(own.moved[outermost] for own in cost.operators)))


def _share(step: Step, name: str, kind: str, unit: str, runs: int, busy: Mapping[str, float], *, macs: int,
           operations: int, cycles: float, energy_pj: float, outermost_words: float) -> OperatorShare:
    """An operator of a step with all its runs, from the numbers of one run; the busiest unit or memory is its bound.
    """
    return OperatorShare(step.phase, step.batch, step.length, step.steps, step.layers, name, kind, unit,
                         max(busy, key=lambda each: busy[each]), runs, runs * macs, runs * operations, runs * cycles,
                         runs * energy_pj, runs * outermost_words, {key: runs * value for key, value in busy.items()})


def _outcome(model: LanguageModel | TracedModel, batch: int, prompt: int, generate: int, cycle_s: float,
             operators: Sequence[OperatorShare], homes: Sequence[str]) -> BatchOutcome:
    def sums(phase: str, length: int) -> tuple[float, float]:
        own = [share for share in operators if (share.phase, share.batch, share.length) == (phase, batch, length)]
        return sum(share.cycles for share in own) * cycle_s, sum(share.energy_pj for share in own) * 1e-12
    lengths, further = lengths_of(model, prompt, generate), np.arange(prompt + 1, prompt + generate)
    curves = [np.interp(further, lengths, [sums("decode", length)[index] for length in lengths])
              for index in range(2)] if lengths else [further, further]
    return BatchOutcome(batch, *sums("prefill", prompt), tuple(
        (int(length), float(seconds), float(joules)) for length, seconds, joules in zip(further, *curves, strict=True)),
        weight_words(model), cached_words(model, batch, prompt + generate - 1), *homes)


def cached_words(model: LanguageModel | TracedModel, batch: int, length: int) -> int:
    """Words of the cache of all layers for sequences of so many tokens; a window bounds the tokens of a layer."""
    return sum(layers.count * batch * min(length, layers.window or length) * model.cached_words
               for layers in model.layers)


def weight_words(model: LanguageModel | TracedModel) -> int:
    """Words of all weights: matrices of the layers, with all experts, embedding and head."""
    if isinstance(model, TracedModel):
        return model.weights
    words = model.vocabulary * model.width * (1 if model.tied else 2)
    for layers in model.layers:
        for node in layer_network(model, layers, 1, 1, 1).layers:
            if node.layer is not None and "Weights" not in node.operands:
                words += (layers.count * math.prod(node.layer.tensor_shape("Weights")) // node.layer.repeat
                          * (node.experts or node.layer.repeat))
    return words
