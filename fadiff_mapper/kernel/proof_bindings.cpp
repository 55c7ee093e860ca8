// Proofs of mappings and bounds on fused groups for Python.

#include <limits>

#include "bindings.hpp"
#include "group_bound.hpp"
#include "proof.hpp"

namespace fadiff {
namespace {

using Names = std::vector<std::uint8_t>;

void check(bool right, const char* what) { need(right, what, ": wrong shape"); }

void check_order(const std::uint8_t* order, std::size_t size, int dims, const char* what) {
    check(int(size) == dims && each_dimension_once(order, 1, dims), what);
}

std::unique_ptr<OneCall<Prover>> prover(const Layer& layer, std::vector<double> bounds, OpenLoops open, Metric metric,
                                        std::pair<double, double> sums, const Given<double>& words,
                                        const Given<bool>& counted) {
    const std::size_t levels = layer.levels, dims = layer.dims;
    check(bounds.size() == dims && open.factors.size() == levels * dims, "loops");
    check(sums.first > 0 && sums.second > 0, "sums");
    for (const auto& own : open.factors)
        for (double factor : own) check(factor >= 1, "factors");
    for (const auto* part : {&open.inner, &open.between, &open.outer}) check(part->size() == levels, "orders");
    for (std::size_t level = 0; level < levels; ++level) {
        Names all = open.inner[level];
        for (const auto* part : {&open.between, &open.outer}) all.insert(all.end(), (*part)[level].begin(), (*part)[level].end());
        check_order(all.data(), all.size(), layer.dims, "orders");
    }
    return std::make_unique<OneCall<Prover>>(layer, std::move(bounds), std::move(open), metric,
                                             Price{sums.first, sums.second}, rooms_of(layer, words, counted, 1));
}

std::unique_ptr<OneCall<SchemeWalk>> scheme_walk(const Layer& layer, OpenSchemes open) {
    const std::size_t dims = layer.dims;
    check(int(open.fan_outs.size()) == layer.levels && open.bounds.size() == dims && open.in_time.size() == dims, "schemes");
    for (const OpenFanOut& own : open.fan_outs) {
        check(own.factors.size() == dims && own.on_x.size() == dims && own.on_y.size() == dims, "fan-outs");
        for (const auto& factors : own.factors)
            for (double factor : factors) check(factor >= 1, "factors");
        Names all = own.inner;
        for (const auto* part : {&own.between, &own.outer}) all.insert(all.end(), part->begin(), part->end());
        check_order(all.data(), all.size(), layer.dims, "fan-outs");
    }
    return std::make_unique<OneCall<SchemeWalk>>(layer.units, std::move(open));
}

Scheme next_scheme(SchemeWalk& walk) {
    if (const Scheme* scheme = walk.next()) return *scheme;
    throw py::stop_iteration();
}

std::vector<Layout> layouts(SchemeWalk& walk, const Scheme& scheme) {
    check(scheme.spatial.size() == walk.cells(), "scheme");
    return walk.layouts(scheme);
}

double begin(Prover& prover, const Scheme& scheme, std::vector<Layout> layouts) {
    const Layer& layer = prover.layer();
    const std::size_t cells = std::size_t(layer.levels) * layer.dims;
    check(scheme.spatial.size() == cells && scheme.keep.size() == std::size_t(layer.levels) * layer.tensors, "scheme");
    for (const Layout& layout : layouts) {
        check(layout.order.size() == cells && layout.on_y.size() == cells, "layouts");
        for (int level = 0; level < layer.levels; ++level)
            check_order(layout.order.data() + level * layer.dims, layer.dims, layer.dims, "layouts");
    }
    return prover.begin({scheme.spatial, scheme.keep, std::move(layouts)});
}

std::pair<std::size_t, std::vector<std::pair<double, Scheme>>> begin_each(Prover& prover, OneCall<SchemeWalk>& walk,
                                                                          double limit, std::size_t most, double units) {
    return one_call(+[](SchemeWalk& walk, Prover& prover, double limit, std::size_t most, double units) {
        py::gil_scoped_release release;
        std::size_t looked = 0;
        std::vector<std::pair<double, Scheme>> below;
        const Layer& layer = prover.layer();
        for (const Scheme* scheme; looked < most && (scheme = walk.next()); ++looked) {
            check(scheme->spatial.size() == std::size_t(layer.levels) * layer.dims &&
                  scheme->keep.size() == std::size_t(layer.levels) * layer.tensors, "scheme");
            if (walk.units() < units) continue;     // too few to be below the limit
            if (const double bound = prover.begin(*scheme); bound < limit) below.push_back({bound, *scheme});
        }
        return std::make_pair(looked, std::move(below));
    })(walk, prover, limit, most, units);
}

std::pair<std::size_t, std::vector<Part>> divided(Prover& prover, const std::vector<LevelLoops>& outer, double limit) {
    py::gil_scoped_release release;
    return prover.divided(outer, limit);
}

py::tuple search(Prover& prover, const std::vector<LevelLoops>& outer, double limit, std::size_t budget) {
    need(prover.placed(), "layouts", ": a scheme that was begun without any is bounded alone");
    Searched found;
    {
        py::gil_scoped_release release;
        found = prover.search(outer, limit, budget);
    }
    py::object best = py::none();
    if (found.best) best = nest_arrays(prover.layer(), {&*found.best}, false);
    return py::make_tuple(found.whole, found.least, found.value, found.parts, found.mappings, best);
}

std::unique_ptr<GroupBound> group_bound_of(const FusedSegment& segment, std::vector<LayerLeast> layers, double usable,
                                           const std::array<double, 3>& bandwidth,
                                           const std::vector<std::pair<std::vector<int>, bool>>& orders,
                                           const std::vector<std::pair<int, int>>& alike,
                                           const std::vector<std::vector<int>>& shared) {
    const FusedLayer& last = segment.layers.back();
    need(layers.size() == segment.layers.size() && shared.size() == segment.links.size(), "layers, shared",
         ": wrong number");
    need(last.home_price.size() == 1, "layers", ": not one home");
    need(segment.links.size() <= MOST_LINKS, "links", ": too many");
    for (std::size_t k = 0; k < layers.size(); ++k) {
        const std::size_t tensors = segment.layers[k].spaces.size();
        need(layers[k].once.size() == tensors, "once", ": wrong size");
        need(layers[k].inward.size() == tensors, "inward", ": wrong size");
    }
    need(!orders.empty(), "orders", ": none");
    need(orders.size() < 1 << 16, "orders", ": too many");
    std::vector<LoopOrder> found{{orders[0].first, false, true}};
    for (const auto& [dims, spilled] : orders) {
        need(dims.size() <= MOST_LOOPS && dims.size() == orders[0].first.size(), "orders", ": wrong number of loops");
        for (int dim : dims) need(dim >= 0 && dim < last.dims(), "orders");
        found.push_back({dims, spilled, false});
    }
    const std::vector<int>& looping = orders[0].first;
    for (const auto& [first, second] : alike)
        need(std::count(looping.begin(), looping.end(), first) && std::count(looping.begin(), looping.end(), second), "alike");
    return std::make_unique<GroupBound>(segment, std::move(layers), HomeLevel{usable, bandwidth[0], bandwidth[1], bandwidth[2]},
                                        std::move(found), alike, shared);
}

std::size_t refine_bound(GroupBound& bound, double energy, double cycles, double bar, std::size_t most) {
    py::gil_scoped_release release;
    return bound.refine({energy, cycles}, bar, most);
}

double lower_price(const GroupBound& bound, double energy, double cycles) { return bound.lower({energy, cycles}); }

py::object least_whole(GroupBound& bound, double energy, double cycles) {
    const std::optional<WholePart> found = bound.least_whole({energy, cycles});
    if (!found) return py::none();
    return py::make_tuple(found->place, found->loops, found->kept, found->spilled, found->stays, found->prices);
}

void searched(GroupBound& bound, std::size_t place, double energy, double cycles, double least) {
    bound.searched(place, {energy, cycles}, least);
}

std::vector<std::pair<int, double>> least_loops(const GroupBound& bound, double energy, double cycles) {
    return bound.least_loops({energy, cycles});
}

// A part with its least costs. All numbers are checked, as they are used as indices and divisors.
GroupPart part_of(GroupBound& bound, std::size_t order, const std::vector<double>& least, const std::vector<double>& most,
                  const std::vector<int>& again, const std::vector<int>& kept,
                  const std::vector<std::array<int, 2>>& stays) {
    const FusedSegment& segment = bound.segment();
    need(order < bound.orders().size(), "order");
    const std::vector<int>& dims = bound.orders()[order].dims;
    need(least.size() == dims.size() && most.size() == dims.size(), "least, most", ": wrong number of loops");
    need(again.size() == segment.links.size() && kept.size() == again.size(), "again, kept", ": wrong number of links");
    need(stays.size() == segment.layers.size(), "stays", ": wrong number of layers");
    GroupBox box;
    box.order = std::uint16_t(order);
    for (std::size_t loop = 0; loop < dims.size(); ++loop) {
        need(1 <= least[loop] && least[loop] <= most[loop] && most[loop] <= segment.layers.back().bounds[dims[loop]], "least, most");
        box.least[loop] = least[loop], box.most[loop] = most[loop];
    }
    for (std::size_t link = 0; link < again.size(); ++link) {
        need(0 <= again[link] && 0 <= kept[link] && (again[link] | kept[link]) >> dims.size() == 0, "again, kept");
        box.again[link] = std::uint8_t(again[link]), box.kept[link] = std::uint8_t(kept[link]);
    }
    for (std::size_t layer = 0; layer < stays.size(); ++layer)
        for (std::size_t slot = 0; slot < 2; ++slot) {
            const int own = stays[layer][slot];
            need(0 <= own && (!own || own <= bound.residencies(order, layer, slot)), "stays");
            box.stays[layer][slot] = std::uint8_t(own);
        }
    std::vector<GroupPart> parts{GroupPart{box}};
    bound.evaluate(parts);
    return std::move(parts[0]);
}

std::vector<GroupPart> divided_part(GroupBound& bound, const GroupPart& part, double energy, double cycles) {
    return bound.divided_at(part, {energy, cycles});
}

int residencies(const GroupBound& bound, std::size_t order, std::size_t layer, std::size_t slot) {
    need(order < bound.orders().size(), "order");
    need(layer < bound.segment().layers.size(), "layer");
    return bound.residencies(order, layer, slot);
}

std::vector<std::pair<std::vector<int>, bool>> loop_orders(const GroupBound& bound) {
    std::vector<std::pair<std::vector<int>, bool>> found;
    for (const LoopOrder& order : bound.orders()) found.push_back({order.dims, order.spilled});
    return found;
}

// The first values of an array: as many as a part has loops, links or layers.
template <class Value, std::size_t MOST>
auto first(const std::array<Value, MOST>& all, std::size_t count) {
    return std::vector<Value>(all.begin(), all.begin() + std::ptrdiff_t(count));
}

}  // namespace

void add_proofs(py::module_& module) {
    using std::pair;
    module.attr("PROOF_TOLERANCE") = PROOF_TOLERANCE;
    add_table(module, "OpenLoops", pair("factors", &OpenLoops::factors), pair("inner", &OpenLoops::inner),
              pair("between", &OpenLoops::between), pair("outer", &OpenLoops::outer));
    py::class_<LevelLoops>(module, "LevelLoops")
        .def_readonly("factors", &LevelLoops::factor).def_readonly("order", &LevelLoops::order);
    py::class_<Scheme>(module, "Scheme").def_readonly("spatial", &Scheme::spatial)
        .def_property_readonly("keep", [](const Scheme& scheme) { return std::vector<bool>(scheme.keep.begin(), scheme.keep.end()); });
    py::class_<Layout>(module, "Layout").def_readonly("order", &Layout::order).def_readonly("on_y", &Layout::on_y);
    add_table(module, "OpenFanOut", pair("factors", &OpenFanOut::factors), pair("inner", &OpenFanOut::inner),
              pair("between", &OpenFanOut::between), pair("outer", &OpenFanOut::outer), pair("split", &OpenFanOut::split),
              pair("on_x", &OpenFanOut::on_x), pair("on_y", &OpenFanOut::on_y));
    add_table(module, "OpenSchemes", pair("bounds", &OpenSchemes::bounds), pair("fan_outs", &OpenSchemes::fan_outs),
              pair("in_time", &OpenSchemes::in_time), pair("keeps", &OpenSchemes::keeps), pair("least", &OpenSchemes::least));
    py::class_<OneCall<SchemeWalk>>(module, "SchemeWalk")
        .def(py::init(&scheme_walk))
        .def("__iter__", [](py::object self) { return self; })
        .def("__next__", one_call(&next_scheme))
        .def("layouts", one_call(&layouts));
    py::class_<OneCall<Prover>>(module, "Prover")
        .def(py::init(&prover), py::keep_alive<1, 2>())
        .def("begin", one_call(&begin))
        .def("begin_each", one_call(&begin_each))
        .def("divided", one_call(&divided))
        .def("search", one_call(&search));
    add_table(module, "ProductUnits", pair("known", &ProductUnits::known), pair("computes", &ProductUnits::computes),
              pair("most", &ProductUnits::most), pair("along", &ProductUnits::along), pair("beside", &ProductUnits::beside),
              pair("whole", &ProductUnits::whole), pair("holder", &ProductUnits::holder),
              pair("most_holders", &ProductUnits::most_holders),
              pair("holders", &ProductUnits::holders), pair("uses", &ProductUnits::uses))
        .def(py::init<>());
    add_table(module, "LayerLeast", pair("energy", &LayerLeast::energy), pair("cycles", &LayerLeast::cycles),
              pair("written", &LayerLeast::written), pair("made", &LayerLeast::made), pair("done", &LayerLeast::done),
              pair("filled", &LayerLeast::filled), pair("fill", &LayerLeast::fill), pair("back", &LayerLeast::back),
              pair("summing", &LayerLeast::summing), pair("unfinished", &LayerLeast::unfinished),
              pair("resting", &LayerLeast::resting), pair("units", &LayerLeast::units), pair("through", &LayerLeast::through), pair("brought", &LayerLeast::brought),
              pair("lasting", &LayerLeast::lasting), pair("lasting_words", &LayerLeast::lasting_words), pair("once", &LayerLeast::once),
              pair("inward", &LayerLeast::inward));
    py::class_<GroupPart>(module, "GroupPart")
        .def("decisions", [](const GroupPart& part, std::size_t loops, std::size_t links) {
            need(loops <= MOST_LOOPS && links <= MOST_LINKS, "loops, links");
            std::vector<int> again(part.again.begin(), part.again.begin() + std::ptrdiff_t(links));
            std::vector<int> kept(part.kept.begin(), part.kept.begin() + std::ptrdiff_t(links));
            std::vector<std::array<int, 2>> stays;
            for (std::size_t layer = 0; layer <= links; ++layer) stays.push_back({part.stays[layer][0], part.stays[layer][1]});
            return py::make_tuple(int(part.order), first(part.least, loops), first(part.most, loops), again, kept, stays);
        })
        .def("price", [](const GroupPart& part, double energy, double cycles) { return price_of(part, {energy, cycles}); });
    py::class_<GroupBound>(module, "GroupBound")
        .def(py::init(&group_bound_of), py::keep_alive<1, 2>())  // refers to its segment
        .def("refine", &refine_bound)
        .def("lower", &lower_price)
        .def("least_loops", &least_loops)
        .def_property_readonly("parts", &GroupBound::parts)
        .def_property_readonly("orders", &loop_orders)
        .def_property_readonly("shared", &GroupBound::shared)
        .def("residencies", &residencies)
        .def("part", &part_of)
        .def("divided", &divided_part)
        .def("least_whole", &least_whole)
        .def("searched", &searched);
}

}  // namespace fadiff
