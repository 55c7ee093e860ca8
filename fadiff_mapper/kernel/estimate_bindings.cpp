#include "estimate_bindings.hpp"

#include <pybind11/stl.h>

#include <cmath>
#include <memory>

#include "bindings.hpp"
#include "closed_forms.hpp"
#include "nest_estimate.hpp"

namespace py = pybind11;

namespace fadiff {

template <typename T>
static T entry(const py::dict& table, const char* name) {
    if (!table.contains(name)) throw std::invalid_argument(std::string(name) + ": missing");
    return table[name].cast<T>();
}

template <typename T>
static std::vector<T> row(const py::dict& table, const char* name, std::size_t length) {
    auto values = entry<std::vector<T>>(table, name);
    if (values.size() != length) throw std::invalid_argument(std::string(name) + ": wrong size");
    return values;
}

constexpr double LARGEST = 1ll << 53;  // extents up to which doubles are whole numbers

using Ranks = std::vector<std::vector<std::pair<int, double>>>;  // terms (dimension, coefficient) of each rank

static FusedSpace space_of(const Ranks& ranks, bool written, int dims) {
    FusedSpace space;
    space.written = written;
    for (const auto& terms : ranks) {
        Rank rank;
        for (auto [dim, coefficient] : terms) {
            if (dim < 0 || dim >= dims) throw std::invalid_argument("spaces: dimension out of range");
            rank.terms.push_back({dim, coefficient});
            rank.dims |= Dims(1) << dim;
        }
        space.relevant |= rank.dims;
        space.ranks.push_back(std::move(rank));
    }
    return space;
}

static FusedLayer layer_of(const py::dict& table, std::size_t homes) {
    FusedLayer layer;
    layer.bounds = entry<std::vector<double>>(table, "bounds");
    if (layer.bounds.size() > 63) throw std::invalid_argument("bounds: more than 63 dimensions");
    for (double bound : layer.bounds)
        if (!(bound >= 1 && bound <= LARGEST)) throw std::invalid_argument("bounds: out of range");
    layer.output = entry<int>(table, "output");
    layer.linked = entry<int>(table, "linked");
    for (const Ranks& ranks : entry<std::vector<Ranks>>(table, "spaces"))
        layer.spaces.push_back(space_of(ranks, int(layer.spaces.size()) == layer.output, layer.dims()));
    const int tensors = int(layer.spaces.size());
    if (tensors > 31 || layer.output < 0 || layer.output >= tensors || layer.linked < -1 || layer.linked >= tensors)
        throw std::invalid_argument("spaces, output, linked: out of range");
    layer.inside = entry<double>(table, "inside");
    for (const auto& [compute, lanes] : entry<std::vector<std::pair<double, std::vector<double>>>>(table, "known")) {
        if (lanes.size() != layer.bounds.size()) throw std::invalid_argument("known: lanes of wrong length");
        for (double some : lanes)
            if (!(some >= 1 && some <= MOST_UNITS)) throw std::invalid_argument("known: lanes out of range");
        layer.know(compute, lanes);
    }
    if (layer.known.empty()) throw std::invalid_argument("known: no mapping");
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
    return link;
}

static void check_link(const FusedLink& link, const FusedLayer& producer, const FusedLayer& consumer) {
    if (link.theirs.size() != producer.bounds.size()) throw std::invalid_argument("theirs: wrong size");
    for (int dim : link.theirs)
        if (dim < -1 || dim >= consumer.dims()) throw std::invalid_argument("theirs: out of range");
    if (consumer.linked < 0) throw std::invalid_argument("linked: missing");
}

static std::unique_ptr<FusedSegment> segment_of(const std::vector<const FusedLayer*>& layers,
                                                const std::vector<const FusedLink*>& links, double repeat) {
    if (layers.empty() || links.size() != layers.size() - 1) throw std::invalid_argument("links: wrong number");
    auto segment = std::make_unique<FusedSegment>();
    segment->repeat = repeat;
    for (const FusedLayer* layer : layers) {
        if (!layer) throw py::type_error("layers: None");
        if (layer->home_price.size() != layers[0]->home_price.size())
            throw std::invalid_argument("layers: other homes");
        segment->layers.push_back(*layer);
    }
    if (layers[0]->linked >= 0) throw std::invalid_argument("linked: no layer before the first");
    for (std::size_t k = 0; k < links.size(); ++k) {
        if (!links[k]) throw py::type_error("links: None");
        check_link(*links[k], *layers[k], *layers[k + 1]);
        segment->links.push_back(*links[k]);
    }
    return segment;
}

// Checks loops over the last layer and their tile sizes, before they are used as indices and divisors.
static void check_loops(const FusedSegment& segment, const std::vector<int>& dims, const std::vector<Loops64>& retained,
                        const double* sizes, std::size_t count) {
    if (dims.size() > 63) throw std::invalid_argument("dims: more than 63 loops");
    for (int dim : dims)
        if (dim < 0 || dim >= segment.layers.back().dims()) throw std::invalid_argument("dims: out of range");
    if (retained.size() != segment.links.size()) throw std::invalid_argument("retained: wrong size");
    for (std::size_t i = 0; i < count; ++i)
        if (!(sizes[i] >= 1 && sizes[i] <= LARGEST)) throw std::invalid_argument("sizes: out of range");
}

// Checks the numbers of layers, data spaces and dimensions before they are used as indices.
static const FusedLayer& layer_at(const FusedSegment& segment, int index) {
    if (index < 0 || index >= int(segment.layers.size())) throw std::invalid_argument("layer: out of range");
    return segment.layers[index];
}

static std::unique_ptr<NestEstimate> nest_of(const FusedSegment& segment, int home, double usable,
                                             std::vector<int> dims, std::vector<Loops64> retained, bool spilled,
                                             const Array<double>& sizes) {
    const FusedLayer& last = segment.layers.back();
    if (home < 0 || std::size_t(home) >= last.home_price.size()) throw std::invalid_argument("home: out of range");
    if (sizes.ndim() != 2 || std::size_t(sizes.shape(0)) != dims.size())
        throw std::invalid_argument("sizes: wrong shape");
    check_loops(segment, dims, retained, sizes.data(), std::size_t(sizes.size()));
    std::vector<double> values(sizes.data(), sizes.data() + sizes.size());
    const std::size_t batch = dims.empty() ? 1 : std::size_t(sizes.shape(1));
    py::gil_scoped_release release;
    return std::make_unique<NestEstimate>(
        segment, NestOptions{home, usable, std::move(dims), std::move(retained), spilled}, values, batch);
}

// Layer, data space and loops of each operand that stays in a choice.
static std::vector<std::tuple<int, int, Loops64>> stays_of(const NestEstimate& nest, std::size_t row) {
    if (row >= nest.choices()) throw std::invalid_argument("row: out of range");
    std::vector<std::tuple<int, int, Loops64>> stays;
    for (std::size_t k = 0; k < nest.operands().size(); ++k) {
        const Operand& operand = nest.operands()[k];
        const Residency& residency = operand.residencies[nest.choice(row)[k]];
        if (residency.stays) stays.emplace_back(operand.layer, operand.tensor, residency.across);
    }
    return stays;
}

static std::vector<double> lower_prices(const NestEstimate& nest, double energy, double cycles) {
    std::vector<double> prices;
    py::gil_scoped_release release;
    for (std::size_t row = 0; row < nest.choices(); ++row) prices.push_back(nest.lower(row, {energy, cycles}));
    return prices;
}

static py::object best_sizes(const NestEstimate& nest, std::size_t row, double energy, double cycles, double bar) {
    if (row >= nest.choices()) throw std::invalid_argument("row: out of range");
    const Sized best = nest.best(row, {energy, cycles}, bar);
    if (!best.found) return py::none();
    return py::make_tuple(best.price, best.energy, best.cycles, best.column);
}

// A layer's cuts by some loops in one tile size, for tests: what the closed forms make of it.
static py::dict closed_forms_of(const FusedSegment& segment, const std::vector<int>& dims,
                                const std::vector<double>& sizes, const std::vector<Loops64>& retained, int index,
                                int tensor, Loops64 across) {
    const FusedLayer& layer = layer_at(segment, index);
    if (sizes.size() != dims.size() || tensor < 0 || tensor >= int(layer.spaces.size()))
        throw std::invalid_argument("closed_forms: wrong sizes");
    check_loops(segment, dims, retained, sizes.data(), sizes.size());
    const ClosedForms forms = closed_forms(segment, dims, sizes, retained, index, tensor, across);
    py::list loops;
    for (const ClosedForms::Cut& cut : forms.loops)
        loops.append(py::dict(py::arg("steps") = cut.steps, py::arg("points") = cut.points,
                              py::arg("largest") = cut.largest, py::arg("needed") = cut.needed));
    return py::dict(py::arg("loops") = loops, py::arg("computed") = forms.computed,
                    py::arg("fetched") = forms.fetched, py::arg("held") = forms.held, py::arg("lying") = forms.lying,
                    py::arg("outlasting") = forms.outlasting);
}

static py::object refetch(const FusedSegment& segment, int index, const std::vector<double>& tile, Spaces passing,
                          Spaces staying, double room, double sums_room) {
    const FusedLayer& layer = layer_at(segment, index);
    if (tile.size() != layer.bounds.size()) throw std::invalid_argument("tile: wrong size");
    for (double extent : tile)
        if (!(extent >= 1 && extent <= LARGEST)) throw std::invalid_argument("tile: out of range");
    Refetch found;
    refetched(layer, tile.data(), passing, staying, room, sums_room, found);
    return found.fits ? py::object(py::cast(found.times)) : py::none();
}

void add_estimates(py::module_& module) {
    py::class_<FusedLayer>(module, "SegmentLayer").def(py::init(&layer_of));
    py::class_<FusedLink>(module, "SegmentLink").def(py::init(&link_of));
    py::class_<FusedSegment>(module, "FusedSegment")
        .def(py::init(&segment_of))
        .def("closed_forms", &closed_forms_of)
        .def("refetched", &refetch);
    py::class_<NestEstimate>(module, "NestEstimate")
        .def(py::init(&nest_of), py::keep_alive<1, 2>())  // refers to its segment
        .def("lower_prices", &lower_prices)
        .def("best_sizes", &best_sizes)
        .def("stays", &stays_of);
}

}  // namespace fadiff
