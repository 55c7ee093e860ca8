// The Python module `fadiff_mapper.kernel._kernel`: NumPy arrays in, NumPy arrays out.

#include <limits>
#include <optional>

#include "bindings.hpp"
#include "chains.hpp"
#include "residual_walk.hpp"
#include "sparse.hpp"

namespace fadiff {

using Design = std::shared_ptr<sparse::SparseDesign>;

// ---- Layers

using Flags = std::vector<std::uint8_t>;

static void complete(ScoredLayer& layer) {
    layer.levels = int(layer.level.size()), layer.tensors = int(layer.spaces.size());
    need(layer.levels >= 1, "levels");
    need(layer.dims >= 1 && layer.dims <= 64, "dims");
    need(layer.tensors >= 1, "spaces", ": wrong length");
    need(layer.units.size() == layer.level.size() + 1, "units", ": wrong length");
    const std::size_t cells = layer.level.size() * layer.spaces.size();
    need(layer.bandwidth_scale.size() == cells, "bandwidth_scale", ": wrong length");
    for (const auto* words : {&layer.whole, &layer.partial, &layer.per})
        need(words->size() == (layer.packed() ? cells : 0), "whole, partial, per", ": wrong length");
    for (const Flags* flags : {&layer.held, &layer.multicast, &layer.linked, &layer.first_written, &layer.coalesced})
        need(flags->size() == cells, "held, multicast, linked, first_written, coalesced", ": wrong length");
    for (const DataSpace& space : layer.spaces)
        need(space.move.size() == space.ranks.size() * layer.dims, "spaces", ": of other dimensions");
    for (Level& level : layer.level) {
        need(level.gate >= 0 && level.gate < layer.levels, "gate");
        need(level.fanout_x >= 0 && level.fanout_y >= 0, "fanout_x, fanout_y");
        level.fanout_x = std::min(level.fanout_x, MOST_UNITS), level.fanout_y = std::min(level.fanout_y, MOST_UNITS);
    }
    for (Interconnect& one : layer.interconnects) {
        need(one.level >= 0 && one.level < layer.levels, "interconnects: level");
        need(one.transfers.empty() || int(one.transfers.size()) == layer.tensors, "interconnects: transfers");
        one.transfers.resize(layer.tensors);
        layer.priced |= one.hop != 0 || one.router != 0 || one.ingress != 0 || one.adder != 0;
        for (const auto& of : one.transfers)
            for (const auto& [receivers, energy] : of) layer.priced |= energy != 0;
    }
}

static void need_layer_of(const Design& design, const Layer& layer) {
    need(!design || (design->layer.levels == layer.levels && design->layer.dims == layer.dims
                     && design->layer.tensors == layer.tensors), "sparse", ": of another layer");
}

static void add_layers(py::module_& module) {
    using std::pair;
    module.attr("UNLIMITED") = UNLIMITED;
    module.attr("MOST_CALLS") = MOST_CALLS;
    module.attr("MOST_RECEIVERS") = std::int64_t(MOST_RECEIVERS);
    py::enum_<Interconnect::Kind>(module, "InterconnectKind")
        .value("Legacy", Interconnect::WIRES)
        .value("ReductionTree", Interconnect::TREE)
        .value("SimpleMulticast", Interconnect::MULTICAST);
    add_table(module, "InterconnectTable", pair("kind", &Interconnect::kind), pair("level", &Interconnect::level),
              pair("reduces", &Interconnect::reduces), pair("hop", &Interconnect::hop), pair("router", &Interconnect::router),
              pair("ingress", &Interconnect::ingress), pair("adder", &Interconnect::adder),
              pair("transfers", &Interconnect::transfers));
    add_table(module, "Unit", pair("instances", &Unit::instances), pair("mesh_x", &Unit::mesh_x), pair("mesh_y", &Unit::mesh_y));
    add_table(module, "Level", pair("usable", &Level::usable), pair("least", &Level::least), pair("fanout_x", &Level::fanout_x),
              pair("fanout_y", &Level::fanout_y), pair("clusters", &Level::clusters), pair("block", &Level::block),
              pair("read", &Level::read), pair("fill", &Level::fill), pair("update", &Level::update), pair("leak", &Level::leak),
              pair("address", &Level::address), pair("read_bandwidth", &Level::read_bandwidth),
              pair("write_bandwidth", &Level::write_bandwidth), pair("shared_bandwidth", &Level::shared_bandwidth),
              pair("gated", &Level::gated), pair("gate", &Level::gate));
    py::class_<DataSpace>(module, "DataSpaceTable")
        .def(py::init(&data_space_of), py::kw_only(), py::arg("ranks"), py::arg("written"), py::arg("dims"));
    py::class_<Layer>(module, "AnyLayer");
    made_of_fields(
        py::class_<ScoredLayer, Layer>(module, "Layer"), &complete, pair("dims", &Layer::dims), pair("spaces", &Layer::spaces),
        pair("levels", &Layer::level), pair("units", &Layer::units), pair("whole", &Layer::whole),
        pair("partial", &Layer::partial), pair("per", &Layer::per), pair("bandwidth_scale", &Layer::bandwidth_scale),
        pair("held", &Layer::held), pair("multicast", &Layer::multicast), pair("linked", &Layer::linked),
        pair("first_written", &Layer::first_written), pair("coalesced", &Layer::coalesced),
        pair("interconnects", &Layer::interconnects), pair("compute_energy", &Layer::compute_energy),
        pair("network_latency", &Layer::network_latency));
}

// ---- Evaluation

static void score_batch(ScoredLayer& layer, const py::sequence& nest, const Given<double>& words, const Given<bool>& counted,
                        Array<double>& out, std::size_t first, std::size_t last, bool all, const Design& sparse) {
    const Batch batch = batch_of(layer, nest);
    need(last <= batch.size && out.ndim() == 2 && out.shape(0) == 5 && std::size_t(out.shape(1)) == batch.size, "out",
         ": wrong shape");
    need_layer_of(sparse, layer);
    need(!sparse || !batch.residual(), "residuals", " are not known to sparse designs");
    const RoomColumns rooms = rooms_of(layer, words, counted, batch.size);
    double* rows = out.mutable_data();
    py::gil_scoped_release release;
    score(layer, sparse, batch, rooms, first, last, all, rows);
}

// (demand of one receiver [L][T][B], and by kind of transfer, each [K][L][T][B], words, multicast, scatter, words times hops;
// links [L][T][B]; calls of the walk [B]); see BatchTraffic.
static py::tuple traffic(const Layer& layer, const py::sequence& nest, bool with_hops) {
    const Batch batch = batch_of(layer, nest);
    BatchTraffic found;
    {
        py::gil_scoped_release release;
        found = traffic_of(layer, batch, with_hops);
    }
    std::size_t kinds = 1;
    for (const Tally& tally : found.tallies) kinds = std::max(kinds, tally.size());
    const std::vector<std::size_t> plain{std::size_t(layer.levels), std::size_t(layer.tensors), batch.size};
    const auto by_kind = [&](double Kind::*field) {
        Array<double> made({kinds, plain[0], plain[1], plain[2]});
        double* at = made.mutable_data();
        for (std::size_t kind = 0; kind < kinds; ++kind)
            for (const Tally& own : found.tallies) *at++ = (kind < own.size() ? own[kind] : Kind{1, 1, 0, 0}).*field;
        return made;
    };
    return py::make_tuple(Array<double>(plain, found.wanted.data()), by_kind(&Kind::words), by_kind(&Kind::multicast),
                          by_kind(&Kind::scatter), by_kind(&Kind::hop_words), Array<double>(plain, found.links.data()),
                          Array<double>(batch.size, found.calls.data()));
}

// ---- Map spaces

template <typename T, typename From>
static std::vector<T> sized(const Given<From>& values, std::size_t length, const char* name) {
    need(std::size_t(values ? values->size() : 0) == length, name, ": wrong size");
    return values ? std::vector<T>(values->data(), values->data() + length) : std::vector<T>();
}

// Whatever leads to another entry must lie inside its table, so that no input makes the kernel read or write beyond one.
static void check_space(const MapSpace& space, const Layer& layer) {
    const auto all = [](const auto& values, const char* name, auto holds) {
        need(std::all_of(values.begin(), values.end(), holds), name);
    };
    const auto number = [&](Number n) { return n < space.width; };
    const auto counts = [](double points) { return points >= 1 && points <= MOST_UNITS; };
    all(space.points, "points", counts);
    all(space.most, "most", counts);
    all(space.quotient, "quotient", number);
    all(space.product, "product", number);
    all(space.bound, "bound", [&](Number n) { return n >= 0 && number(n); });
    all(space.divisor, "divisor", [](double d) { return d >= 1; });
    for (std::size_t cell = 0; cell < space.completable.size(); ++cell)
        need(!space.completable[cell] || space.quotient[cell % space.quotient.size()] >= 0, "completable");
    const auto ordered = [&](const std::vector<std::uint8_t>& order) {
        need(int(order.size()) == space.dims, "orders, layouts", ": wrong size");
        return each_dimension_once(order.data(), 1, space.dims);
    };
    need(int(space.orders.size()) == layer.levels && int(space.layouts.size()) == layer.levels, "orders, layouts", ": wrong size");
    for (int level = 0; level < layer.levels; ++level) {
        need(!space.orders[level].empty() && !space.layouts[level].empty(), "orders, layouts");
        all(space.orders[level], "orders", ordered);
        all(space.layouts[level], "layouts", [&](const Layout& layout) {
            return ordered(layout.order) && int(layout.on_y.size()) == space.dims;
        });
    }
    const auto known = [&](int level, int tensor) {
        return level >= 0 && level < layer.levels && tensor >= 0 && tensor < layer.tensors;
    };
    for (auto [level, tensor] : space.open) need(known(level, tensor), "open");
    for (const Decision& decision : space.decisions) need(known(decision.level, decision.tensor), "decisions");
}

// Of the tables of divisors and those of whole numbers (`least`, `most`, `points`) one kind is given.
static MapSpace space_of(const Layer& layer, const Given<double>& divisor, const Given<Number>& quotient,
                         const Given<Number>& product, const Given<bool>& allowed, const Given<bool>& completable,
                         const Given<std::int64_t>& bound, const Given<double>& least, const Given<double>& most,
                         const Given<double>& points, const std::vector<std::pair<int, int>>& movable,
                         const std::vector<std::vector<Flags>>& orders,
                         const std::vector<std::vector<std::pair<Flags, Flags>>>& layouts, const Array<bool>& keep,
                         const std::vector<std::pair<int, int>>& open,
                         const std::vector<std::tuple<Decision::Kind, int, int>>& decisions, double available,
                         double min_parallelism) {
    MapSpace space;
    space.places = layer.places(), space.dims = layer.dims, space.tensors = layer.tensors;
    const std::size_t dims = space.dims, places = space.places;
    const bool residual = most && most->size() > 0;
    const std::size_t width = residual || !divisor || divisor->ndim() != 2 ? 0 : std::size_t(divisor->shape(1));
    need(residual || (width >= 1 && width <= std::size_t(std::numeric_limits<Number>::max())), "divisor", ": wrong size");
    space.width = residual ? 1 : int(width);
    space.divisor = sized<double>(divisor, dims * width, "divisor");
    space.quotient = sized<Number>(quotient, dims * width * width, "quotient");
    space.product = sized<Number>(product, dims * width * width, "product");
    space.allowed = sized<std::uint8_t>(allowed, places * dims * width, "allowed");
    space.completable = sized<std::uint8_t>(completable, places * dims * width * width, "completable");
    space.bound = sized<Number>(bound, residual ? 0 : dims, "bound");
    space.least = sized<double>(least, residual ? places * dims : 0, "least");
    space.most = sized<double>(most, residual ? places * dims : 0, "most");
    space.points = sized<double>(points, residual ? dims : 0, "points");
    space.keep = sized<std::uint8_t, bool>(keep, std::size_t(layer.levels) * layer.tensors, "keep");
    space.movable.assign(places, 0);
    for (auto [place, d] : movable) {
        need(place >= 0 && place < space.places && d >= 0 && d < space.dims, "movable");
        space.movable[place] |= Dims(1) << d;
    }
    space.orders = orders, space.open = open;
    for (const auto& level : layouts) {
        space.layouts.emplace_back();
        for (const auto& [order, on_y] : level) space.layouts.back().push_back({order, on_y});
    }
    for (auto [kind, level, tensor] : decisions) space.decisions.push_back({kind, level, tensor});
    check_space(space, layer);
    space.available = available, space.min_parallelism = min_parallelism;
    list_parts(space);
    return space;
}

static void add_spaces(py::module_& module) {
    py::enum_<Decision::Kind>(module, "Decision")
        .value("ORDER", Decision::ORDER).value("LAYOUT", Decision::LAYOUT).value("KEEP", Decision::KEEP);
    const auto none = [](const char* name) { return py::arg_v(name, py::none()); };
    py::class_<MapSpace>(module, "SpaceTables")
        .def(py::init(&space_of), py::arg("layer"), py::kw_only(), none("divisor"), none("quotient"), none("product"),
             none("allowed"), none("completable"), none("bound"), none("least"), none("most"), none("points"),
             py::arg("movable"), py::arg("orders"),
             py::arg("layouts"), py::arg("keep"), py::arg("open"), py::arg("decisions"), py::arg("available"),
             py::arg("min_parallelism"));
}

// ---- Search

static void need_layer_of(const Correction& correction, const Layer& layer) {
    need(int(correction.coefficients.size()) == Correction::FEATURES, "coefficients", ": wrong length");
    need(int(correction.bounds.size()) == layer.dims && correction.inputs >= 0 && correction.inputs < layer.tensors
         && correction.stream < layer.dims, "correction", ": of another layer");
    for (const auto* dims : {&correction.reduced, &correction.windows, &correction.produced, &correction.positions, &correction.groups,
                             &correction.sliding})
        for (const int d : *dims) need(d >= 0 && d < layer.dims, "correction", ": of another layer");
    const auto& ranks = layer.spaces[correction.inputs].ranks;
    for (const int d : correction.sliding)
        need(std::any_of(ranks.begin(), ranks.end(), [d](const Rank& rank) { return rank.terms.size() > 1 && rank.dims >> d & 1; }),
             "correction", ": of another layer");
}

static void add_correction(py::module_& module) {
    using std::pair;
    auto correction = add_table<Correction>(
        module, "Correction", pair("program", &Correction::program), pair("bounds", &Correction::bounds),
        pair("reduced", &Correction::reduced), pair("windows", &Correction::windows), pair("produced", &Correction::produced),
        pair("positions", &Correction::positions), pair("groups", &Correction::groups), pair("sliding", &Correction::sliding),
        pair("inputs", &Correction::inputs), pair("stream", &Correction::stream), pair("word_bytes", &Correction::word_bytes),
        pair("norm", &Correction::norm), pair("coefficients", &Correction::coefficients));
    correction.attr("BLOCK") = Correction::BLOCK, correction.attr("ROUNDING") = Correction::ROUNDING;
    correction.attr("BEAT") = Correction::BEAT, correction.attr("LINE") = Correction::LINE, correction.attr("PAGE") = Correction::PAGE;
    correction.attr("CACHE") = Correction::CACHE, correction.attr("WIDEST") = Correction::WIDEST;
    py::enum_<Correction::Program>(module, "Program")
        .value("as-mapped", Correction::AS_MAPPED).value("gemmini", Correction::GEMMINI);
}

static std::unique_ptr<OneCall<Chains>> chains_of(const Layer& layer, const MapSpace& space,
                                             const std::vector<std::pair<double, Metric>>& terms, const Given<double>& words,
                                             const Given<bool>& counted, std::uint64_t seed,
                                             const Design& sparse, const std::optional<Correction>& correction,
                                             std::pair<double, double> sums, double seconds) {
    need(sums.first > 0 && sums.second > 0, "sums");
    need_layer_of(space, layer);
    need_layer_of(sparse, layer);
    if (correction) need_layer_of(*correction, layer);
    const Objective objective{terms, {sums.first, sums.second}};
    return std::make_unique<OneCall<Chains>>(layer, space, objective, rooms_of(layer, words, counted, 1), seed, sparse,
                                              correction, seconds);
}

static void start_at(Chains& chains, const py::sequence& nest) {
    const Batch batch = batch_of(chains.layer(), nest);
    std::vector<Mapping> mappings;
    for (std::size_t column = 0; column < batch.size; ++column) mappings.push_back(mapping_of(chains.layer(), batch, column));
    for (const Mapping& mapping : mappings) chains.start_at(mapping);
}

static std::vector<Chains::Improvement> history_of(Chains& chains, std::size_t first) {
    const auto& history = chains.history();
    return {history.begin() + std::min(first, history.size()), history.end()};
}

static void add_chains(py::module_& module) {
    using Release = py::call_guard<py::gil_scoped_release>;
    module.attr("ILLEGAL") = ILLEGAL, module.attr("TINY") = TINY, module.attr("SAME") = SAME;
    py::enum_<Metric>(module, "Metric")
        .value("edp", Metric::EDP).value("energy", Metric::ENERGY).value("delay", Metric::DELAY)
        .value("last_level_accesses", Metric::LAST_LEVEL_ACCESSES).value("share", Metric::SHARE);
    py::enum_<Chains::Stage>(module, "Stage")
        .value("start", Chains::START).value("refine", Chains::REFINE).value("polish", Chains::POLISH);
    const auto in = [](const char* name) { return py::arg(name); };
    py::class_<OneCall<Chains>>(module, "Chains")
        .def(py::init(&chains_of), in("layer"), in("space"), in("terms"), in("room_words"), in("room_counted"), in("seed"),
             py::arg("sparse") = nullptr, py::arg("correction") = py::none(), py::arg("sums") = std::make_pair(1.0, 1.0),
             py::arg("seconds") = std::numeric_limits<double>::infinity())
        .def("start_random", one_call(+[](Chains& own, int count) { own.start_random(count); }), Release())
        .def("start_at", one_call(&start_at))
        .def("begin", one_call(+[](Chains& own, int rounds, double start, double end, int least, int agreeing, int tries,
                                   bool greedy, double resplit_rate, double crossover_rate) {
            own.begin({rounds, start, end, least, agreeing, tries, greedy, resplit_rate, crossover_rate});
        }), in("rounds"), in("temperature_start"), in("temperature_end"), in("rounds_least"), in("chains_agreeing"), in("tries"),
             in("greedy"), py::arg("resplit_rate") = 0, py::arg("crossover_rate") = 0)
        .def("anneal", one_call(+[](Chains& own, int rounds) { return own.anneal(rounds); }), Release())
        .def("keep_strongest", one_call(+[](Chains& own, int count) { own.keep_strongest(count); }))
        .def("start_again", one_call(+[](Chains& own, int count) { own.start_again(count); }), Release())
        .def("polish", one_call(+[](Chains& own, int steps) { return own.polish(steps); }), Release())
        .def("best", one_call(+[](Chains& own) { return nest_arrays(own.layer(), {&own.best()}, !own.best().last.empty()); }))
        .def("history", one_call(&history_of))
        .def_property_readonly("agreed", one_call(+[](Chains& own) { return own.agreed(); }))
        .def_property_readonly("met", one_call(+[](Chains& own) { return own.met(); }))
        .def_property_readonly("best_value", one_call(+[](Chains& own) { return own.best_value(); }))
        .def_property_readonly("evaluations", one_call(+[](Chains& own) { return own.evaluations(); }))
        .def_property_readonly("legal_evaluations", one_call(+[](Chains& own) { return own.legal_evaluations(); }));
}

PYBIND11_MODULE(_kernel, module) {
    add_layers(module);
    add_sparse(module);
    // Results are written into an array that is given: no conversion may take its place by a copy.
    module.def("score", &score_batch, py::arg("layer"), py::arg("nest"), py::arg("room_words"), py::arg("room_counted"),
               py::arg("out").noconvert(), py::arg("first"), py::arg("last"), py::arg("all"), py::arg("sparse") = nullptr);
    module.def("traffic", &traffic);
    add_spaces(module);
    add_correction(module);
    add_chains(module);
    add_draw(module);
    add_estimates(module);
    add_prover(module);
}

}  // namespace fadiff
