// Estimates of fused groups for Python.

#include <cmath>

#include "bindings.hpp"
#include "nest_estimate.hpp"

namespace fadiff {

constexpr double LARGEST = 1ll << 53;  // extents up to which doubles are whole numbers

static void need_extents(const double* values, std::size_t count, const char* name) {
    for (std::size_t i = 0; i < count; ++i) need(values[i] >= 1 && values[i] <= LARGEST, name);
}

using Known = std::vector<std::pair<double, std::vector<double>>>;   // cycles and lanes of mappings

static FusedLayer layer_of(std::vector<double> bounds, const std::vector<RankTerms>& spaces, int output, int linked,
                           Spaces handed, double inside, const Known& known, double sums_room, double read, double write,
                           double words_per_cycle, std::vector<double> home_reads, std::vector<double> home_price) {
    FusedLayer layer;
    need(bounds.size() <= 63, "bounds", ": more than 63 dimensions");
    need_extents(bounds.data(), bounds.size(), "bounds");
    layer.bounds = std::move(bounds);
    for (const RankTerms& ranks : spaces) {
        layer.spaces.push_back(data_space_of(ranks, int(layer.spaces.size()) == output, layer.dims()));
        for (Rank& rank : layer.spaces.back().ranks)
            std::sort(rank.terms.begin(), rank.terms.end(),
                      [](const auto& one, const auto& other) { return one.coefficient < other.coefficient; });
    }
    const int tensors = int(spaces.size());
    need(tensors <= 31 && output >= 0 && output < tensors && linked >= -1 && linked < tensors, "spaces, output, linked");
    need(handed >> tensors == 0 && !(handed >> output & 1) && (linked < 0 || handed >> linked & 1), "handed");
    layer.output = output, layer.linked = linked, layer.handed = handed, layer.inside = inside;
    for (const auto& [compute, lanes] : known) {
        need(lanes.size() == layer.bounds.size(), "known", ": lanes of wrong length");
        for (double some : lanes) need(some >= 1 && some <= MOST_UNITS, "known", ": lanes out of range");
        layer.know(compute, lanes);
    }
    need(!layer.known.empty(), "known", ": no mapping");
    layer.sums_room = sums_room, layer.read = read, layer.write = write, layer.words_per_cycle = words_per_cycle;
    need(home_reads.size() == home_price.size() * std::size_t(tensors), "home_reads", ": wrong size");
    layer.home_reads = std::move(home_reads), layer.home_price = std::move(home_price);
    return layer;
}

static FusedLink link_of(std::vector<int> theirs, const std::vector<std::array<double, 7>>& slides, std::vector<double> stored,
                         std::pair<double, double> lying, double elsewhere, bool beside, bool written_whole,
                         bool written_pooled, int distance) {
    FusedLink link;
    need(slides.size() == theirs.size(), "slides", ": wrong size");
    need(stored.size() == theirs.size(), "stored", ": wrong size");
    link.theirs = std::move(theirs), link.stored = std::move(stored);
    for (const auto& [span, stride, shrink, lead, block, ahead, advance] : slides)
        link.slides.push_back({span, stride, shrink, lead, block, ahead, advance});
    std::tie(link.lying, link.lying_per) = lying;
    link.elsewhere = elsewhere, link.beside = beside, link.distance = distance;
    link.written_whole = written_whole, link.written_pooled = written_pooled;
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
                                             const Array<double>& sizes, double energy, double cycles, double limit,
                                             bool resting) {
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
        segment, NestOptions{home, usable, std::move(dims), std::move(retained), sums, resting}, values, batch,
        Price{energy, cycles}, limit);
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
    py::gil_scoped_release release;
    return nest.lower({energy, cycles});
}

static py::object best_sizes(const NestEstimate& nest, std::size_t choice, double energy, double cycles, double bar) {
    need(choice < nest.choices(), "choice");
    const auto best = nest.best(choice, {energy, cycles}, bar);
    return best ? py::make_tuple(best->price, best->energy, best->cycles, best->column) : py::object(py::none());
}

void add_estimates(py::module_& module) {
    py::class_<FusedLayer>(module, "SegmentLayer")
        .def(py::init(&layer_of), py::kw_only(), py::arg("bounds"), py::arg("spaces"), py::arg("output"), py::arg("linked"),
             py::arg("handed"), py::arg("inside"), py::arg("known"), py::arg("sums_room"), py::arg("read"), py::arg("write"),
             py::arg("words_per_cycle"), py::arg("home_reads"), py::arg("home_price"));
    py::class_<FusedLink>(module, "SegmentLink")
        .def(py::init(&link_of), py::kw_only(), py::arg("theirs"), py::arg("slides"), py::arg("stored"), py::arg("lying"),
             py::arg("elsewhere"), py::arg("beside"), py::arg("written_whole"), py::arg("written_pooled"), py::arg("distance"));
    py::class_<FusedSegment>(module, "FusedSegment").def(py::init(&segment_of));
    py::enum_<SumsRest>(module, "SumsRest")
        .value("INSIDE", SumsRest::Inside)
        .value("HOME", SumsRest::Home)
        .value("OUTERMOST", SumsRest::Outermost);
    py::class_<NestEstimate>(module, "NestEstimate")
        .def(py::init(&nest_of), py::keep_alive<1, 2>(),  // refers to its segment
             py::arg("segment"), py::arg("home"), py::arg("usable"), py::arg("dims"), py::arg("retained"), py::arg("sums"),
             py::arg("sizes"), py::arg("energy") = INFINITY, py::arg("cycles") = INFINITY, py::arg("limit") = INFINITY,
             py::arg("resting") = false)
        .def("lower_prices", &lower_prices)
        .def("best_sizes", &best_sizes)
        .def("stays", &stays_of);
}

}  // namespace fadiff
