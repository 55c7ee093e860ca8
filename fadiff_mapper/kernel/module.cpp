// The Python module `fadiff_mapper.kernel._kernel`: NumPy arrays in, NumPy arrays out.

#include <pybind11/stl.h>

#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>

#include "bindings.hpp"
#include "chains.hpp"
#include "checks.hpp"
#include "estimate_bindings.hpp"
#include "one_call.hpp"
#include "pack_columns.hpp"
#include "parts.hpp"
#include "proof_bindings.hpp"
#include "residual_walk.hpp"
#include "sparse_bindings.hpp"
#include "straight_through.hpp"

namespace py = pybind11;
using namespace fadiff;

namespace {

using Terms = std::vector<std::pair<int, double>>;

std::vector<DataSpace> data_spaces(const std::vector<std::vector<Terms>>& ranks, const std::vector<bool>& written,
                                   int dims) {
    need(!ranks.empty() && written.size() == ranks.size(), "written", ": wrong length");
    std::vector<DataSpace> spaces;
    for (std::size_t t = 0; t < ranks.size(); ++t) {
        DataSpace space;
        space.written = written[t];
        space.move.assign(ranks[t].size() * dims, 0.0);
        for (std::size_t r = 0; r < ranks[t].size(); ++r) {
            Rank rank;
            rank.surplus = -1;
            for (auto [dim, coefficient] : ranks[t][r]) {
                need(dim >= 0 && dim < dims, "ranks");
                rank.terms.push_back({dim, coefficient});
                rank.dims |= Dims(1) << dim;
                rank.surplus += coefficient;
                space.move[r * dims + dim] += coefficient;
            }
            if (rank.terms.size() == 1 && rank.terms[0].coefficient == 1) rank.single = rank.terms[0].dim;
            space.relevant |= rank.dims;
            if (rank.terms.size() > 1) space.windowed = true, space.shared |= rank.dims;
            space.ranks.push_back(rank);
        }
        std::size_t terms = 0;
        bool stretched = false;
        for (const Rank& rank : space.ranks) {
            terms += rank.terms.size();
            for (const Rank::Term& term : rank.terms) stretched |= term.coefficient > 1;
        }
        space.holed = space.written && (terms > space.ranks.size() || stretched
                                        || std::size_t(__builtin_popcountll(space.relevant)) < space.ranks.size());
        spaces.push_back(space);
    }
    return spaces;
}

template <typename T>
void take(std::vector<T>& into, const py::dict& table, const char* name, std::size_t length) {
    auto values = table[name].cast<std::vector<double>>();
    if (values.size() != length) throw std::invalid_argument(std::string(name) + ": wrong length");
    for (double value : values) {
        if (std::is_integral_v<T>) need(value >= 0, name), value = std::min(value, MOST_UNITS);
        into.push_back(T(value));
    }
}

// Interconnects from tuples: kind, level, reduces, pJ per hop, router, ingress and addition, transfers.
std::vector<Interconnect> interconnects_of(const py::dict& table, int levels, int tensors) {
    using Transfers = std::vector<std::vector<std::pair<double, double>>>;
    using Row = std::tuple<int, int, bool, double, double, double, double, Transfers>;
    std::vector<Interconnect> interconnects;
    for (const auto& [kind, level, reduces, hop, router, ingress, adder, transfers] :
         table["interconnects"].cast<std::vector<Row>>()) {
        need(kind >= Interconnect::WIRES && kind <= Interconnect::MULTICAST, "interconnects: kind");
        need(level >= 0 && level < levels, "interconnects: level");
        need(transfers.empty() || int(transfers.size()) == tensors, "interconnects: transfers");
        Interconnect one{Interconnect::Kind(kind), level, reduces, hop, router, ingress, adder, {}};
        one.transfers.resize(tensors);
        for (std::size_t t = 0; t < transfers.size(); ++t)
            for (auto [receivers, energy] : transfers[t]) one.transfers[t].push_back({receivers, energy});
        interconnects.push_back(std::move(one));
    }
    return interconnects;
}

// A layer from a dictionary of lists, see model/prepared_layer.py.
Layer layer_of(const py::dict& table) {
    Layer layer;
    layer.levels = table["levels"].cast<int>();
    layer.dims = table["dims"].cast<int>();
    need(layer.levels >= 1, "levels");
    need(layer.dims >= 1 && layer.dims <= 64, "dims");
    layer.spaces = data_spaces(table["ranks"].cast<std::vector<std::vector<Terms>>>(),
                               table["written"].cast<std::vector<bool>>(), layer.dims);
    layer.tensors = int(layer.spaces.size());
    const std::size_t levels = layer.levels, cells = levels * layer.tensors;
    for (auto [instances, x, y] : table["units"].cast<std::vector<std::tuple<double, double, double>>>())
        layer.units.push_back({instances, x, y});
    if (layer.units.size() != levels + 1) throw std::invalid_argument("units: wrong length");
    take(layer.usable, table, "usable", levels);
    take(layer.least, table, "least", levels);
    take(layer.fanout_x, table, "fanout_x", levels);
    take(layer.fanout_y, table, "fanout_y", levels);
    take(layer.clusters, table, "clusters", levels);
    take(layer.block, table, "block", levels);
    take(layer.read, table, "read", levels);
    take(layer.fill, table, "fill", levels);
    take(layer.update, table, "update", levels);
    take(layer.leak, table, "leak", levels);
    take(layer.address, table, "address", levels);
    take(layer.read_bandwidth, table, "read_bandwidth", levels);
    take(layer.write_bandwidth, table, "write_bandwidth", levels);
    take(layer.shared_bandwidth, table, "shared_bandwidth", levels);
    take(layer.gated, table, "gated", levels);
    take(layer.gate, table, "gate", levels);
    for (int gate : layer.gate) need(gate < layer.levels, "gate");
    take(layer.bandwidth_scale, table, "bandwidth_scale", cells);
    take(layer.held, table, "held", cells);
    take(layer.multicast, table, "multicast", cells);
    take(layer.linked, table, "linked", cells);
    take(layer.first_written, table, "first_written", cells);
    take(layer.coalesced, table, "coalesced", cells);
    layer.interconnects = interconnects_of(table, layer.levels, layer.tensors);
    layer.compute_energy = table["compute_energy"].cast<double>();
    layer.network_latency = table["network_latency"].cast<double>();
    for (const Interconnect& one : layer.interconnects) {
        layer.priced |= one.hop != 0 || one.router != 0 || one.ingress != 0 || one.adder != 0;
        for (const auto& of : one.transfers)
            for (const Interconnect::Transfer& transfer : of) layer.priced |= transfer.energy != 0;
    }
    return layer;
}


// A layer with the scratch of its evaluations, which takes longer to make than a small batch to evaluate: as many as
// threads have evaluated at a time.
struct ScoredLayer : Layer {
    std::mutex changing;
    std::vector<std::unique_ptr<Workspace>> idle;

    explicit ScoredLayer(Layer layer) : Layer(std::move(layer)) {}
};

// One of a layer's workspaces, as long as this lives.
class Borrowed {
public:
    explicit Borrowed(ScoredLayer& layer) : layer_(layer) {
        const std::lock_guard<std::mutex> held(layer.changing);
        if (layer.idle.empty()) return;
        work_ = std::move(layer.idle.back());
        layer.idle.pop_back();
    }
    ~Borrowed() {
        if (!work_) return;
        const std::lock_guard<std::mutex> held(layer_.changing);
        layer_.idle.push_back(std::move(work_));
    }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    Workspace& operator*() {
        if (!work_) work_ = std::make_unique<Workspace>(layer_);
        return *work_;
    }

private:
    ScoredLayer& layer_;
    std::unique_ptr<Workspace> work_;
};

// Scores columns first to last of a batch into out [5][B]: cycles, energy, last level accesses, excess, legal.
// `unrounded`: of mappings with residuals, without Timeloop's faults of rounding.
void score(ScoredLayer& layer, const py::sequence& nest, const py::object& room_words, const py::object& room_counted,
           Array<double>& out, std::size_t first, std::size_t last, bool all, bool unrounded) {
    const BatchView batch(layer, nest);
    const std::size_t size = batch.batch;
    if (last > size || out.ndim() != 2 || out.shape(0) != 5 || std::size_t(out.shape(1)) != size)
        throw std::invalid_argument("out: wrong shape");
    double* rows = out.mutable_data();
    const double* words = nullptr;
    const bool* counted = nullptr;
    Array<double> words_array;
    Array<bool> counted_array;
    if (!room_words.is_none()) {
        words_array = room_words.cast<Array<double>>();
        counted_array = room_counted.cast<Array<bool>>();
        if (words_array.ndim() != 2 || words_array.shape(0) != layer.levels || std::size_t(words_array.shape(1)) != size)
            throw std::invalid_argument("room: wrong shape");
        words = words_array.data();
        counted = cells_of(counted_array, layer.levels, layer.tensors, size, "room");
    }
    py::gil_scoped_release release;
    Borrowed borrowed(layer);
    Workspace& work = *borrowed;
    const std::size_t cells = std::size_t(layer.levels) * layer.tensors;
    Room own{std::vector<double>(layer.levels), std::vector<std::uint8_t>(cells)};
    RoomPack room(layer);
    Scores scores[LANES], without[LANES];
    std::unique_ptr<Workspace> residual;
    std::vector<Mapping> mappings(batch.temporal_last ? LANES : 0, Mapping(layer));
    const Mapping* given[LANES];
    for (std::size_t lane = 0; lane < mappings.size(); ++lane) given[lane] = &mappings[lane];
    if (batch.temporal_last) residual = std::make_unique<Workspace>(layer, true, true);
    NearColumns columns(layer, batch, first, last);
    for (std::size_t column = first; column < last; column += LANES) {
        const int count = int(std::min<std::size_t>(LANES, last - column));
        MappingPack& pack = residual ? residual->pack : work.pack;
        if (residual) {
            check_columns(layer, batch, column, count);
            read_columns(layer, batch, column, count, mappings.data());
            pack_mappings(layer, given, count, pack);
        } else {
            const auto [near, within] = columns.at(column);
            pack_columns(layer, near, within, count, pack);
        }
        for (int i = 0; words && i < count; ++i) {
            for (int level = 0; level < layer.levels; ++level) own.words[level] = words[level * size + column + i];
            for (std::size_t cell = 0; cell < cells; ++cell) own.counted[cell] = counted[cell * size + column + i];
            lay_room(own, i, room);
        }
        const RoomPack* own_room = words ? &room : nullptr;
        if (residual) evaluate_residuals(layer, own_room, *residual, scores, without);
        else evaluate(layer, own_room, all ? ALL_LANES : 0, work, scores);
        if (residual && unrounded) std::copy_n(without, count, scores);
        for (int i = 0; i < count; ++i) {
            double* at = rows + column + i;
            at[0] = scores[i].cycles, at[size] = scores[i].energy, at[2 * size] = scores[i].last_level_accesses;
            at[3 * size] = scores[i].excess, at[4 * size] = scores[i].legal;
        }
    }
}

// The traffic before bypassing of a batch: (demand of one receiver [L][T][B], and by kind of transfer, each [K][L][T][B],
// words, multicast, scatter, words times hops; links [L][T][B]; calls of the walk [B]). Demand of mappings with residuals,
// and calls of others, are 0.
py::tuple traffic(const Layer& layer, const py::sequence& nest, bool with_hops) {
    const BatchView batch(layer, nest);
    const std::size_t size = batch.batch, cells = std::size_t(layer.levels) * layer.tensors;
    std::vector<Tally> tallies(cells * size, Tally{{1, 1, 0, 0}});
    std::vector<double> wanted(cells * size), links(cells * size), calls(size);
    {
        py::gil_scoped_release release;
        Workspace work(layer);
        const Traffic& own = work.traffic;
        for (std::size_t column = 0; column < size && !batch.temporal_last; column += LANES) {
            const int count = int(std::min<std::size_t>(LANES, size - column));
            pack_columns(layer, batch, column, count, work.pack);
            lay_tiles(layer, work.pack, work.tiles);
            count_demand(layer, work.pack, work.tiles, with_hops, work.traffic);
            count_delivery(layer, work.pack, work.tiles, with_hops, ((1u << count) - 1) & lanes_countable(layer, work.tiles),
                           work.traffic);
            for (std::size_t cell = 0; cell < cells; ++cell)
                for (int i = 0; i < count; ++i) {
                    const std::size_t at = cell * size + column + i;
                    if (own.counted[cell] >> i & 1) tallies[at] = own.tally[cell * LANES + i];
                    else tallies[at] = {{own.multicast[cell][i], own.scatter[cell][i], own.words[cell][i], 0}};
                    wanted[at] = own.wanted[cell][i];
                    links[at] = own.links[cell][i];
                }
        }
        Mapping mapping(layer);
        for (std::size_t column = 0; column < size && batch.temporal_last; ++column) {
            check_columns(layer, batch, column, 1);
            read_columns(layer, batch, column, 1, &mapping);
            ResidualWalk walk(layer, mapping, with_hops);
            calls[column] = walk.calls();
            if (!walk.walkable()) continue;
            ResidualTraffic found = walk.run();
            for (std::size_t cell = 0; cell < cells; ++cell) {
                if (!found.tally[cell].empty()) tallies[cell * size + column] = std::move(found.tally[cell]);
                links[cell * size + column] = found.links[cell];
            }
        }
    }
    std::size_t kinds = 1;
    for (const Tally& tally : tallies) kinds = std::max(kinds, tally.size());
    const std::vector<std::size_t> shape{kinds, std::size_t(layer.levels), std::size_t(layer.tensors), size};
    Array<double> words(shape), multicast(shape), scatter(shape), hop_words(shape);
    double *parts[] = {words.mutable_data(), multicast.mutable_data(), scatter.mutable_data(), hop_words.mutable_data()};
    for (std::size_t kind = 0; kind < kinds; ++kind)
        for (std::size_t at = 0; at < cells * size; ++at) {
            const Kind own = kind < tallies[at].size() ? tallies[at][kind] : Kind{1, 1, 0, 0};
            const std::size_t to = kind * cells * size + at;
            parts[0][to] = own.words, parts[1][to] = own.multicast, parts[2][to] = own.scatter, parts[3][to] = own.hop_words;
        }
    const std::vector<std::size_t> plain(shape.begin() + 1, shape.end());
    return py::make_tuple(Array<double>(plain, wanted.data()), words, multicast, scatter, hop_words,
                          Array<double>(plain, links.data()), Array<double>(calls.size(), calls.data()));
}

void draw(const Array<double>& theta, const py::object& noise, double alpha, double tau, const Array<std::int64_t>& member,
          const Array<double>& divisor, const Array<bool>& completable, const Array<std::int64_t>& left,
          const Array<std::int64_t>& start, Array<double>& hard, Array<double>& slope) {
    if (theta.ndim() != 3 || divisor.ndim() != 3) throw std::invalid_argument("draw_columns: wrong number of axes");
    const py::ssize_t places = theta.shape(0), dims = theta.shape(1), batch = theta.shape(2);
    const py::ssize_t members = divisor.shape(0), width = divisor.shape(2);
    // Noise of either precision, so that neither caller converts a table of every divisor.
    const bool single = py::isinstance<py::array_t<float>>(noise);
    Array<float> drawn;
    Array<double> drawn_double;
    if (single) drawn = noise.cast<Array<float>>();
    else if (!noise.is_none()) drawn_double = noise.cast<Array<double>>();
    const py::ssize_t given = single ? drawn.size() : drawn_double.size();
    if (divisor.shape(1) != dims || member.size() != batch || hard.size() != theta.size() || slope.size() != theta.size()
        || completable.size() != members * places * dims * width * width || left.size() != members * dims * width * width
        || start.size() != members * dims || (!noise.is_none() && given != places * dims * batch * width))
        throw std::invalid_argument("draw_columns: wrong shapes");
    for (py::ssize_t b = 0; b < batch; ++b)
        if (member.data()[b] < 0 || member.data()[b] >= members) throw std::invalid_argument("member: out of range");
    const DrawTables tables{std::size_t(places), std::size_t(dims), std::size_t(width), divisor.data(), completable.data(),
                            left.data(), start.data()};
    const float* single_at = single ? drawn.data() : nullptr;
    const double* double_at = noise.is_none() || single ? nullptr : drawn_double.data();
    double *hard_at = hard.mutable_data(), *slope_at = slope.mutable_data();
    py::gil_scoped_release release;
    if (single) draw_columns(tables, batch, theta.data(), single_at, member.data(), alpha, tau, hard_at, slope_at);
    else draw_columns(tables, batch, theta.data(), double_at, member.data(), alpha, tau, hard_at, slope_at);
}

template <typename T, typename U>
void take_array(std::vector<T>& into, const py::dict& table, const char* name, std::size_t length) {
    auto values = table[name].cast<Array<U>>();
    if (std::size_t(values.size()) != length) throw std::invalid_argument(std::string(name) + ": wrong size");
    into.assign(values.data(), values.data() + values.size());
}

using Candidates = std::vector<std::vector<std::uint8_t>>;
using Layouts = std::vector<std::pair<std::vector<std::uint8_t>, std::vector<std::uint8_t>>>;

}  // namespace

MapSpace fadiff::map_space_of(const py::dict& table, const Layer& layer) {
    MapSpace space;
    space.places = layer.places();
    space.dims = layer.dims;
    space.tensors = layer.tensors;
    const std::size_t dims = space.dims, places = space.places;
    const bool residual = table.contains("most");
    if (residual) {
        take_array<double, double>(space.least, table, "least", places * dims);
        take_array<double, double>(space.most, table, "most", places * dims);
        take_array<double, double>(space.points, table, "points", dims);
        const auto counts = [](double number) { return number >= 1 && number <= MOST_UNITS; };
        need(std::all_of(space.points.begin(), space.points.end(), counts), "points");
        need(std::all_of(space.most.begin(), space.most.end(), counts), "most");
    }
    space.width = residual ? 1 : table["width"].cast<int>();
    need(space.width >= 1 && space.width <= std::numeric_limits<Number>::max(), "width");
    const std::size_t width = residual ? 0 : space.width;
    if (!residual) take_array<double, double>(space.divisor, table, "divisor", dims * width);
    if (!residual) take_array<Number, Number>(space.quotient, table, "quotient", dims * width * width);
    if (!residual) take_array<Number, Number>(space.product, table, "product", dims * width * width);
    if (!residual) take_array<std::uint8_t, bool>(space.allowed, table, "allowed", places * dims * width);
    if (!residual) take_array<std::uint8_t, bool>(space.completable, table, "completable", places * dims * width * width);
    if (!residual) take_array<Number, std::int64_t>(space.bound, table, "bound", dims);
    take_array<std::uint8_t, bool>(space.keep, table, "keep", std::size_t(layer.levels) * layer.tensors);
    space.movable.assign(places, 0);
    for (auto [place, d] : table["movable"].cast<std::vector<std::pair<int, int>>>()) {
        need(place >= 0 && place < space.places && d >= 0 && d < space.dims, "movable");
        space.movable[place] |= Dims(1) << d;
    }
    space.orders = table["orders"].cast<std::vector<Candidates>>();
    for (const auto& level : table["layouts"].cast<std::vector<Layouts>>()) {
        space.layouts.emplace_back();
        for (const auto& [order, on_y] : level) space.layouts.back().push_back({order, on_y});
    }
    space.open = table["open"].cast<std::vector<std::pair<int, int>>>();
    for (auto [kind, level, tensor] : table["decisions"].cast<std::vector<std::tuple<int, int, int>>>()) {
        need(kind >= Decision::ORDER && kind <= Decision::KEEP, "decisions");
        space.decisions.push_back({Decision::Kind(kind), level, tensor});
    }
    bool complete = int(space.orders.size()) == layer.levels && int(space.layouts.size()) == layer.levels;
    for (const Candidates& level : space.orders)
        for (const auto& order : level) complete &= order.size() == dims;
    for (const auto& level : space.layouts)
        for (const Layout& layout : level) complete &= layout.order.size() == dims && layout.on_y.size() == dims;
    if (!complete) throw std::invalid_argument("orders, layouts: wrong size");
    check_space(space, layer);
    space.available = table["available"].cast<double>();
    if (!residual) list_parts(space);
    space.growable.resize(dims);
    for (int place = 0; residual && place < space.places; ++place)
        for (int d = 0; d < space.dims; ++d)
            if (space.movable[place] >> d & 1) space.growable[d].push_back(place);
    space.min_parallelism = table["min_parallelism"].cast<double>();
    return space;
}

namespace {

Objective objective_of(const std::vector<std::pair<double, int>>& terms, std::pair<double, double> sums) {
    Objective objective{{}, {sums.first, sums.second}};
    need(sums.first > 0 && sums.second > 0, "sums");
    for (auto [weight, quantity] : terms) {
        need(quantity >= Objective::EDP && quantity <= Objective::SHARE, "terms");
        objective.terms.push_back({weight, Objective::Quantity(quantity)});
    }
    return objective;
}

std::optional<Room> room_of(const Layer& layer, const py::object& words, const py::object& counted) {
    if (words.is_none()) return std::nullopt;
    const auto limits = words.cast<Array<double>>();
    const auto flags = counted.cast<Array<bool>>();
    if (limits.size() != layer.levels || flags.size() != layer.levels * layer.tensors)
        throw std::invalid_argument("room: wrong size");
    return Room{{limits.data(), limits.data() + limits.size()}, {flags.data(), flags.data() + flags.size()}};
}

void start_at(Chains& chains, const py::sequence& nest) {
    const Layer& layer = chains.layer();
    const BatchView batch(layer, nest);
    check_columns(layer, batch, 0, int(batch.batch));
    Mapping mapping(layer);
    for (std::size_t column = 0; column < batch.batch; ++column) {
        read_columns(layer, batch, column, 1, &mapping);
        chains.start_at(mapping);
    }
}

void begin(Chains& chains, int rounds, double start, double end, int least, int agreeing, int tries, bool greedy,
           double divided, double adopted) {
    chains.begin({rounds, start, end, least, agreeing, tries, greedy, divided, adopted});
}

// The best mapping as the arrays of a batch of one.
py::tuple best_of(Chains& chains) {
    const Mapping& best = chains.best();
    const NewBatch made(chains.layer(), 1, !best.last.empty());
    write_column(chains.layer(), best, made.out, 0);
    return made.arrays();
}

py::list history_of(Chains& chains, std::size_t first) {
    py::list entries;
    for (std::size_t i = first; i < chains.history().size(); ++i) {
        const Improvement& entry = chains.history()[i];
        entries.append(py::make_tuple(entry.seconds, entry.evaluations, entry.legal_evaluations, entry.value,
                                      entry.stage));
    }
    return entries;
}

}  // namespace

PYBIND11_MODULE(_kernel, module) {
    using Release = py::call_guard<py::gil_scoped_release>;
    py::class_<Layer>(module, "AnyLayer");
    py::class_<ScoredLayer, Layer>(module, "Layer").def(py::init([](const py::dict& table) {
        return std::make_unique<ScoredLayer>(layer_of(table));
    }));
    // Results are written into arrays that are given: no conversion may take their place by a copy.
    const auto in = [](const char* name) { return py::arg(name); };
    const auto out = [](const char* name) { return py::arg(name).noconvert(); };
    module.def("score", &score, in("layer"), in("nest"), in("room_words"), in("room_counted"), out("out"), in("first"),
               in("last"), in("all"), py::arg("unrounded") = false);
    module.def("traffic", &traffic);
    module.def("draw_columns", &draw, in("theta"), in("noise"), in("alpha"), in("tau"), in("member"), in("divisor"),
               in("completable"), in("left"), in("start"), out("hard"), out("slope"));
    add_parts(module);
    add_prover(module);
    add_sparse(module);
    add_estimates(module);
    py::class_<OneCall<Chains>>(module, "Chains")
        .def(py::init([](const Layer& layer, const py::dict& space, const std::vector<std::pair<double, int>>& terms,
                         const py::object& words, const py::object& counted, std::uint64_t seed, const py::object& sparse,
                         std::pair<double, double> sums, double seconds) {
            return std::make_unique<OneCall<Chains>>(layer, map_space_of(space, layer), objective_of(terms, sums),
                                                     room_of(layer, words, counted), seed, sparse_evaluation(sparse),
                                                     seconds);
        }), in("layer"), in("space"), in("terms"), in("room_words"), in("room_counted"), in("seed"),
             py::arg("sparse") = py::none(), py::arg("sums") = std::make_pair(1.0, 1.0),
             py::arg("seconds") = std::numeric_limits<double>::infinity())
        .def("start_random", one_call(&Chains::start_random), Release())
        .def("start_at", one_call(&start_at))
        .def("begin", one_call(&begin), in("rounds"), in("temperature_start"), in("temperature_end"),
             in("rounds_least"), in("chains_agreeing"), in("tries"), in("greedy"), py::arg("divided") = 0,
             py::arg("adopted") = 0)
        .def("anneal", one_call(&Chains::anneal), Release())
        .def("keep_strongest", one_call(&Chains::keep_strongest))
        .def("start_again", one_call(&Chains::start_again), Release())
        .def("polish", one_call(&Chains::polish), Release())
        .def("best", one_call(&best_of))
        .def("history", one_call(&history_of))
        .def_property_readonly("agreed", one_call(&Chains::agreed))
        .def_property_readonly("met", one_call(&Chains::met))
        .def_property_readonly("best_value", one_call(&Chains::best_value))
        .def_property_readonly("evaluations", one_call(&Chains::evaluations))
        .def_property_readonly("legal_evaluations", one_call(&Chains::legal_evaluations));
}
