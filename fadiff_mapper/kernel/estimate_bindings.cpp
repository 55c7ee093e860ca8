// Estimates of fused groups for Python.

#include "bindings.hpp"
#include "group_bound.hpp"
#include "nest_estimate.hpp"

namespace fadiff {

constexpr double LARGEST = 1ll << 53;  // extents up to which doubles are whole numbers

static void need_extents(const double* values, std::size_t count, const char* name) {
    for (std::size_t i = 0; i < count; ++i) need(values[i] >= 1 && values[i] <= LARGEST, name);
}

template <typename T>
static T entry(const py::dict& table, const char* name) {
    need(table.contains(name), name, ": missing");
    return table[name].cast<T>();
}

template <typename T>
static std::vector<T> row(const py::dict& table, const char* name, std::size_t length) {
    auto values = entry<std::vector<T>>(table, name);
    need(values.size() == length, name, ": wrong size");
    return values;
}

static FusedLayer layer_of(const py::dict& table, std::size_t homes) {
    FusedLayer layer;
    layer.bounds = entry<std::vector<double>>(table, "bounds");
    need(layer.bounds.size() <= 63, "bounds", ": more than 63 dimensions");
    need_extents(layer.bounds.data(), layer.bounds.size(), "bounds");
    layer.output = entry<int>(table, "output");
    layer.linked = entry<int>(table, "linked");
    for (const RankTerms& ranks : entry<std::vector<RankTerms>>(table, "spaces"))
        layer.spaces.push_back(data_space_of(ranks, int(layer.spaces.size()) == layer.output, layer.dims()));
    const int tensors = int(layer.spaces.size());
    need(tensors <= 31 && layer.output >= 0 && layer.output < tensors && layer.linked >= -1 && layer.linked < tensors,
         "spaces, output, linked");
    layer.handed = entry<Spaces>(table, "handed");
    need(layer.handed >> tensors == 0 && !(layer.handed >> layer.output & 1)
         && (layer.linked < 0 || layer.handed >> layer.linked & 1), "handed");
    layer.inside = entry<double>(table, "inside");
    for (const auto& [compute, lanes] : entry<std::vector<std::pair<double, std::vector<double>>>>(table, "known")) {
        need(lanes.size() == layer.bounds.size(), "known", ": lanes of wrong length");
        for (double some : lanes) need(some >= 1 && some <= MOST_UNITS, "known", ": lanes out of range");
        layer.know(compute, lanes);
    }
    need(!layer.known.empty(), "known", ": no mapping");
    layer.sums_room = entry<double>(table, "sums_room");
    layer.read = entry<double>(table, "read");
    layer.write = entry<double>(table, "write");
    layer.words_per_cycle = entry<double>(table, "words_per_cycle");
    layer.home_reads = row<double>(table, "home_reads", homes * tensors);
    layer.home_price = row<double>(table, "home_price", homes);
    return layer;
}

static FusedLink link_of(const py::dict& table) {
    FusedLink link;
    link.theirs = entry<std::vector<int>>(table, "theirs");
    const std::size_t dims = link.theirs.size();
    for (const auto& slide : row<std::array<double, 7>>(table, "slides", dims))
        link.slides.push_back({slide[0], slide[1], slide[2], slide[3], slide[4], slide[5], slide[6]});
    link.stored = row<double>(table, "stored", dims);
    std::tie(link.lying, link.lying_per) = entry<std::pair<double, double>>(table, "lying");
    link.elsewhere = entry<double>(table, "elsewhere");
    link.beside = entry<bool>(table, "beside");
    link.written_whole = entry<bool>(table, "written_whole");
    link.written_pooled = entry<bool>(table, "written_pooled");
    link.distance = entry<int>(table, "distance");
    return link;
}

static std::unique_ptr<FusedSegment> segment_of(const std::vector<const FusedLayer*>& layers,
                                                const std::vector<const FusedLink*>& links, double repeat,
                                                const std::vector<std::array<int, 4>>& shared) {
    need(!layers.empty() && links.size() == layers.size() - 1, "links", ": wrong number");
    auto segment = std::make_unique<FusedSegment>();
    segment->repeat = repeat;
    for (const FusedLayer* layer : layers) {
        if (!layer) throw py::type_error("layers: None");
        need(layer->home_price.size() == layers[0]->home_price.size(), "layers", ": other homes");
        segment->layers.push_back(*layer);
    }
    need(layers[0]->handed == 0, "linked", ": no layer before the first");
    for (std::size_t k = 0; k < links.size(); ++k) {
        if (!links[k]) throw py::type_error("links: None");
        const int distance = links[k]->distance;
        need(distance >= 1 && std::size_t(distance) < layers.size() - k, "distance");
        const FusedLayer& reader = *layers[k + std::size_t(distance)];
        need(links[k]->theirs.size() == layers[k]->bounds.size(), "theirs", ": wrong size");
        for (int dim : links[k]->theirs) need(dim >= -1 && dim < reader.dims(), "theirs");
        need(distance == 1 ? reader.linked >= 0 : reader.handed > 0, "linked", ": missing");
        need(distance == 1 || layers[k + 1]->linked < 0, "linked", ": no link to the layer");
        segment->links.push_back(*links[k]);
    }
    for (const auto& [layer, tensor, first, first_tensor] : shared) {
        need(0 <= first && first < layer && std::size_t(layer) < layers.size(), "shared", ": no earlier layer");
        const auto known = [&](int place, int space) {
            return space >= 0 && std::size_t(space) < layers[std::size_t(place)]->spaces.size();
        };
        need(known(layer, tensor) && known(first, first_tensor), "shared", ": no data space");
        segment->shared.push_back({layer, tensor, first, first_tensor});
    }
    return segment;
}

// All numbers are checked before they are used as indices and divisors.
static std::unique_ptr<NestEstimate> nest_of(const FusedSegment& segment, int home, double usable,
                                             std::vector<int> dims, std::vector<Loops64> retained, SumsRest sums,
                                             const Array<double>& sizes) {
    const FusedLayer& last = segment.layers.back();
    need(home >= 0 && std::size_t(home) < last.home_price.size(), "home");
    need(sizes.ndim() == 2 && std::size_t(sizes.shape(0)) == dims.size(), "sizes", ": wrong shape");
    need(dims.size() <= 63, "dims", ": more than 63 loops");
    for (int dim : dims) need(dim >= 0 && dim < last.dims(), "dims");
    need(retained.size() == segment.links.size(), "retained", ": wrong size");
    need_extents(sizes.data(), std::size_t(sizes.size()), "sizes");
    std::vector<double> values(sizes.data(), sizes.data() + sizes.size());
    const std::size_t batch = dims.empty() ? 1 : std::size_t(sizes.shape(1));
    py::gil_scoped_release release;
    return std::make_unique<NestEstimate>(
        segment, NestOptions{home, usable, std::move(dims), std::move(retained), sums}, values, batch);
}

// Layer, data space and loops of each operand that stays in a choice, and the layer and data space that brought it, -1 for
// its own.
static std::vector<std::tuple<int, int, Loops64, int, int>> stays_of(const NestEstimate& nest, std::size_t choice) {
    need(choice < nest.choices(), "choice");
    std::vector<std::tuple<int, int, Loops64, int, int>> stays;
    for (std::size_t k = 0; k < nest.operands().size(); ++k) {
        const Operand& operand = nest.operands()[k];
        const Residency& residency = operand.residencies[nest.choice(choice)[k]];
        if (!residency.stays) continue;
        const Operand* leader = operand.leader < 0 ? nullptr : &nest.operands()[std::size_t(operand.leader)];
        stays.emplace_back(operand.layer, operand.tensor, residency.across, leader ? leader->layer : -1,
                           leader ? leader->tensor : -1);
    }
    return stays;
}

static std::vector<double> lower_prices(const NestEstimate& nest, double energy, double cycles) {
    std::vector<double> prices;
    py::gil_scoped_release release;
    for (std::size_t choice = 0; choice < nest.choices(); ++choice) prices.push_back(nest.lower(choice, {energy, cycles}));
    return prices;
}

static py::object best_sizes(const NestEstimate& nest, std::size_t choice, double energy, double cycles, double bar) {
    need(choice < nest.choices(), "choice");
    const Sized best = nest.best(choice, {energy, cycles}, bar);
    if (!best.found) return py::none();
    return py::make_tuple(best.price, best.energy, best.cycles, best.column);
}

static ProductUnits units_of(const py::dict& table) {
    ProductUnits units;
    units.known = true;
    units.computes = entry<double>(table, "computes");
    units.most = entry<double>(table, "most");
    for (int kind = 0; kind < 5; ++kind) units.along[kind] = row<double>(table, "along", 5)[kind];
    for (int kind = 0; kind < 3; ++kind) {
        units.beside[kind] = row<double>(table, "beside", 3)[kind];
        units.whole[kind] = row<double>(table, "whole", 3)[kind];
    }
    units.holder = entry<double>(table, "holder");
    for (int kind = 0; kind < 2; ++kind) units.holders[kind] = row<double>(table, "holders", 2)[kind];
    return units;
}

static LayerLeast least_of(const py::dict& table, std::size_t tensors) {
    LayerLeast least;
    least.energy = entry<double>(table, "energy");
    least.cycles = entry<double>(table, "cycles");
    least.written = entry<double>(table, "written");
    least.made = entry<double>(table, "made");
    least.done = entry<double>(table, "done");
    least.filled = entry<bool>(table, "filled");
    least.fill = entry<double>(table, "fill");
    least.back = entry<double>(table, "back");
    least.summing = entry<std::vector<std::pair<double, double>>>(table, "summing");
    least.unfinished = entry<double>(table, "unfinished");
    if (table.contains("units")) least.units = units_of(table["units"].cast<py::dict>());
    least.through = entry<Spaces>(table, "through");
    least.brought = entry<Spaces>(table, "brought");
    least.found = entry<Spaces>(table, "found");
    least.lasting = entry<double>(table, "lasting");
    least.once = row<double>(table, "once", tensors);
    least.inward = row<double>(table, "inward", tensors);
    return least;
}

static std::unique_ptr<GroupBound> group_bound_of(const FusedSegment& segment, const std::vector<py::dict>& layers,
                                                  double usable, const std::array<double, 3>& bandwidth,
                                                  const std::vector<std::pair<std::vector<int>, bool>>& orders,
                                                  const std::vector<std::vector<int>>& shared) {
    const FusedLayer& last = segment.layers.back();
    need(layers.size() == segment.layers.size() && shared.size() == segment.links.size(), "layers, shared",
         ": wrong number");
    need(last.home_price.size() == 1, "layers", ": not one home");
    need(segment.links.size() <= MOST_LINKS, "links", ": too many");
    std::vector<LayerLeast> least;
    for (std::size_t k = 0; k < layers.size(); ++k)
        least.push_back(least_of(layers[k], segment.layers[k].spaces.size()));
    need(!orders.empty(), "orders", ": none");
    std::vector<LoopOrder> found{{orders[0].first, false, true}};
    for (const auto& [dims, spilled] : orders) {
        need(dims.size() <= MOST_LOOPS && dims.size() == orders[0].first.size(), "orders", ": wrong number of loops");
        for (int dim : dims) need(dim >= 0 && dim < last.dims(), "orders");
        found.push_back({dims, spilled, false});
    }
    return std::make_unique<GroupBound>(segment, std::move(least), HomeLevel{usable, bandwidth[0], bandwidth[1], bandwidth[2]}, std::move(found),
                                        shared);
}

static std::size_t refine_bound(GroupBound& bound, double energy, double cycles, double bar, std::size_t most) {
    py::gil_scoped_release release;
    return bound.refine({energy, cycles}, bar, most);
}

static double lower_price(const GroupBound& bound, double energy, double cycles) { return bound.lower({energy, cycles}); }

void add_estimates(py::module_& module) {
    py::class_<FusedLayer>(module, "SegmentLayer").def(py::init(&layer_of));
    py::class_<FusedLink>(module, "SegmentLink").def(py::init(&link_of));
    py::class_<FusedSegment>(module, "FusedSegment").def(py::init(&segment_of));
    py::class_<GroupBound>(module, "GroupBound")
        .def(py::init(&group_bound_of), py::keep_alive<1, 2>())  // refers to its segment
        .def("refine", &refine_bound)
        .def("lower", &lower_price);
    py::enum_<SumsRest>(module, "SumsRest")
        .value("INSIDE", SumsRest::Inside)
        .value("HOME", SumsRest::Home)
        .value("OUTERMOST", SumsRest::Outermost);
    py::class_<NestEstimate>(module, "NestEstimate")
        .def(py::init(&nest_of), py::keep_alive<1, 2>())  // refers to its segment
        .def("lower_prices", &lower_prices)
        .def("best_sizes", &best_sizes)
        .def("stays", &stays_of);
}

}  // namespace fadiff
